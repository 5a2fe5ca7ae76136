"""Raw strings to ids and back: corpus readers, the corpus report, tokenizers.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.text.corpus import ParallelCorpus as ParallelCorpus
    from dragoman.text.corpus import guess_language as guess_language
    from dragoman.text.lines import Line as Line
    from dragoman.text.lines import ReadCounts as ReadCounts
    from dragoman.text.lines import count_lines as count_lines
    from dragoman.text.lines import read_lines as read_lines
    from dragoman.text.lines import read_texts as read_texts
    from dragoman.text.lines import scan_stream as scan_stream
    from dragoman.text.monolingual_report import TextReport as TextReport
    from dragoman.text.monolingual_report import text_report as text_report
    from dragoman.text.pair import Pair as Pair
    from dragoman.text.pair_format import PairFormat as PairFormat
    from dragoman.text.report import CorpusReport as CorpusReport
    from dragoman.text.report import corpus_report as corpus_report
    from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer as SentencePieceTokenizer
    from dragoman.text.text_corpus import TextCorpus as TextCorpus
    from dragoman.text.text_corpus import TextLine as TextLine
    from dragoman.text.tokenizer import BOS as BOS
    from dragoman.text.tokenizer import EOS as EOS
    from dragoman.text.tokenizer import MASK as MASK
    from dragoman.text.tokenizer import PAD as PAD
    from dragoman.text.tokenizer import UNK as UNK
    from dragoman.text.tokenizer import Tokenizer as Tokenizer
    from dragoman.text.tokenizer_pair import TokenizerPair as TokenizerPair
    from dragoman.text.vocabulary import Vocabulary as Vocabulary

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "corpus": ("ParallelCorpus", "guess_language"),
        "lines": ("Line", "ReadCounts", "count_lines", "read_lines", "read_texts", "scan_stream"),
        "monolingual_report": ("TextReport", "text_report"),
        "pair": ("Pair",),
        "pair_format": ("PairFormat",),
        "report": ("CorpusReport", "corpus_report"),
        "sentencepiece_tokenizer": ("SentencePieceTokenizer",),
        "text_corpus": ("TextCorpus", "TextLine"),
        "tokenizer": ("BOS", "EOS", "MASK", "PAD", "Tokenizer", "UNK"),
        "tokenizer_pair": ("TokenizerPair",),
        "vocabulary": ("Vocabulary",),
    },
)
