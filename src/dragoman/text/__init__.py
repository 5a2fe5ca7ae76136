"""Raw strings to ids and back: corpus readers, the corpus report, tokenizers."""

from dragoman.text.corpus import Pair, ParallelCorpus, guess_language
from dragoman.text.lines import Line, ReadCounts, read_lines, scan_stream
from dragoman.text.report import CorpusReport, corpus_report
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.text.text_corpus import TextCorpus, TextLine
from dragoman.text.text_report import TextReport, text_report
from dragoman.text.tokenizer import BOS, EOS, MASK, PAD, UNK, Tokenizer
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import Vocabulary

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
