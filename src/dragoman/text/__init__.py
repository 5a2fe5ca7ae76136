"""Raw strings to ids and back: corpus readers, the corpus report, tokenizers.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.text.corpus import Pair as Pair
    from dragoman.text.corpus import ParallelCorpus as ParallelCorpus
    from dragoman.text.corpus import guess_language as guess_language
    from dragoman.text.lines import Line as Line
    from dragoman.text.lines import ReadCounts as ReadCounts
    from dragoman.text.lines import read_lines as read_lines
    from dragoman.text.lines import scan_stream as scan_stream
    from dragoman.text.monolingual_report import TextReport as TextReport
    from dragoman.text.monolingual_report import text_report as text_report
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

_HOMES = {
    "BOS": "tokenizer",
    "EOS": "tokenizer",
    "MASK": "tokenizer",
    "PAD": "tokenizer",
    "UNK": "tokenizer",
    "CorpusReport": "report",
    "Line": "lines",
    "Pair": "corpus",
    "ParallelCorpus": "corpus",
    "ReadCounts": "lines",
    "SentencePieceTokenizer": "sentencepiece_tokenizer",
    "TextCorpus": "text_corpus",
    "TextLine": "text_corpus",
    "TextReport": "monolingual_report",
    "Tokenizer": "tokenizer",
    "TokenizerPair": "tokenizer_pair",
    "Vocabulary": "vocabulary",
    "corpus_report": "report",
    "guess_language": "corpus",
    "read_lines": "lines",
    "scan_stream": "lines",
    "text_report": "monolingual_report",
}

__all__ = [
    "BOS",
    "EOS",
    "MASK",
    "PAD",
    "UNK",
    "CorpusReport",
    "Line",
    "Pair",
    "ParallelCorpus",
    "ReadCounts",
    "SentencePieceTokenizer",
    "TextCorpus",
    "TextLine",
    "TextReport",
    "Tokenizer",
    "TokenizerPair",
    "Vocabulary",
    "corpus_report",
    "guess_language",
    "read_lines",
    "scan_stream",
    "text_report",
]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
