"""The corpus that ships with the package, and the run that shows everything with it."""

from dragoman.demo.grammar import DemoCorpus, generate, load_grammar, write_corpus
from dragoman.demo.show import run_demo

__all__ = ["DemoCorpus", "generate", "load_grammar", "run_demo", "write_corpus"]
