"""The corpus that ships with the package, and the run that shows everything with it."""

from dragoman.demo.commands import draw_commands, load_commands
from dragoman.demo.grammar import DemoCorpus, generate, load_grammar, write_corpus
from dragoman.demo.show import run_demo
from dragoman.demo.sound import run_sound_demo

__all__ = [
    "DemoCorpus",
    "draw_commands",
    "generate",
    "load_commands",
    "load_grammar",
    "run_demo",
    "run_sound_demo",
    "write_corpus",
]
