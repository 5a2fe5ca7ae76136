"""The command line, called as a shell would call it, and something to call it on."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman.cli import main
from end_to_end import small


@dataclass(frozen=True)
class Outcome:
    """What a call left behind."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard output, which must end with the last of them."""
        assert self.out == "" or self.out.endswith("\n")
        return self.out.split("\n")[:-1]


Command = Callable[..., Outcome]


def call(arguments: tuple[object, ...], stdin: bytes = b"") -> int:
    """Run one verb in this process; its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


@pytest.fixture
def dragoman(capfd: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        capfd.readouterr()
        status = call(arguments, stdin)
        out, err = capfd.readouterr()
        return Outcome(status, out, err)

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A word model."""
    return small.saved(tmp_path_factory.mktemp("word") / "model", small.word_pair())


@pytest.fixture(scope="session")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A subword model, which can read and write any text."""
    return small.saved(tmp_path_factory.mktemp("byte") / "model", small.byte_pair())


@pytest.fixture(scope="session")
def causal_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder-only model."""
    return small.saved(tmp_path_factory.mktemp("causal") / "model", small.word_pair(), "causal")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sentences and the same sentences backwards, for training and held out."""
    folder = tmp_path_factory.mktemp("corpus")
    for stem, lines in (("train", small.sentences(200, 1, 6)), ("dev", small.sentences(20, 2, 6))):
        backwards = [" ".join(reversed(line.split())) for line in lines]
        for side, texts in (("source", lines), ("target", backwards)):
            (folder / f"{stem}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (folder / "small.toml").write_text(
        '[tokenizer]\nkind = "word"\n'
        "[model]\nd_model = 16\nnum_heads = 2\nd_ff = 32\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n"
        "[training]\nbatch_tokens = 200\nwarmup_steps = 5\nlearning_rate = 5e-3\nthreads = 1\nmax_steps = 30\n"
        'schedule = "inverse_sqrt"\nema_decay = 0.0\n'
        "[validation]\nevery = 10\n",
        encoding="utf-8",
    )
    return folder


@pytest.fixture(scope="session")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `dragoman train` made of the corpus in 30 updates."""
    out = tmp_path_factory.mktemp("runs") / "run"
    files = ("--source", corpus / "train.source", "--target", corpus / "train.target")
    held_out = ("--dev-source", corpus / "dev.source", "--dev-target", corpus / "dev.target")
    settings = ("--config", corpus / "small.toml", "--set", "d_ff=24", "--seed", 5, "--quiet")
    assert call(("train", *files, *held_out, *settings, "--out", out)) == 0
    return out
