"""Translators in other processes: forked children, pickles, copies, and files that changed since they were opened."""

from __future__ import annotations

import copy
import os
import pickle  # noqa: TID251 - nothing of it is kept: processes hand each other translators so
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import Completer, DragomanError, Filler, TextScorer, Translator
from dragoman.config import DecodingConfig
from dragoman.engines.native.library import load_library
from dragoman.errors import ModelError
from dragoman.memory import make_datastore
from dragoman.models import build_model, save_pretrained
from dragoman.nn import Transformer
from dragoman.studies import save_decoding
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import MASK_TOKEN, SPECIALS
from end_to_end import small

TEXTS = small.sentences(40)
SRC = Path(__file__).parents[2] / "src"


def the_model(seed: int = 1, **sizes: object) -> Transformer:
    made = small.model(small.shape(small.word_pair(), **sizes), seed)
    assert isinstance(made, Transformer)
    return made.float()


def save(folder: Path, seed: int = 1, **sizes: object) -> Path:
    """A model in float32, which every engine runs."""
    config = small.shape(small.word_pair(), **sizes)
    return small.save(folder, the_model(seed, **sizes), config, small.word_pair(), DecodingConfig(max_length=8))


def remembering(folder: Path) -> Path:
    """The same with a datastore."""
    save(folder)
    rows = [small.word_pair().source.encode(text) for text in TEXTS]
    make_datastore(the_model(), [(row, row[::-1]) for row in rows], folder).save(folder)
    return folder


# Forked children

KINDS = ("auto", "packed", "module", "ensemble", "datastore")
FORKED = """
import os, signal, sys, traceback
import torch
from dragoman import Translator

plain, store = sys.argv[1:]
texts = sys.stdin.read().splitlines()
torch.set_num_threads(4)

def found(translator):
    pairs = [(one.text, one.alignment) for one in translator.translate(texts, beam_size=3, alignments=True)]
    return pairs, [one.text for one in translator.translate(texts[:5], sampling=True, seed=3)]

def check(name, make):
    used = make()
    before = found(used)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            same = found(used) == before == found(make())
            os._exit(0 if same and torch.get_num_threads() == 1 else 3)
        except BaseException:
            traceback.print_exc()
            os._exit(4)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

for engine in ("auto", "packed", "module"):
    check(engine, lambda: Translator.from_pretrained(plain, engine=engine, precision="float32"))
check("ensemble", lambda: Translator.from_pretrained([plain, plain], engine="module"))
check("datastore", lambda: Translator.from_pretrained(store, engine="module"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked processes")
def test_a_forked_child_goes_on_whatever_ran_before_in_however_many_threads(tmp_path: Path) -> None:
    """Without `survive_forks` each of them waits for ever for threads that were not forked."""
    plain, store = save(tmp_path / "plain", d_model=128, d_ff=256), remembering(tmp_path / "store")
    many = "\n".join(small.sentences(80))
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["PYTHONPATH"] = str(SRC)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(plain), str(store)],
        input=many, env=environment, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.stdout.splitlines() == [f"{kind} 0" for kind in KINDS], done.stderr


# Pickles and copies


def texts_of(translator: Translator) -> list[object]:
    found = translator.translate(TEXTS, n_best=2, beam_size=2, alignments=True)
    return [(one.text, one.alignment, [other.score for other in one.alternatives]) for one in found]


@pytest.mark.parametrize("double", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy], ids=["pickle", "copy"])
@pytest.mark.parametrize("engine", ["auto", "packed", "module"])
def test_a_translator_is_pickled_and_copied_as_its_path(
    tmp_path: Path, engine: str, double: Callable[[Translator], Translator]
) -> None:
    translator = Translator.from_pretrained(save(tmp_path / "model"), engine=engine)
    translator.decoding = translator.options({"length_penalty": 0.2})
    other = double(translator)
    assert texts_of(other) == texts_of(translator)
    assert (other.engine, other.decoding) == (translator.engine, translator.decoding)
    assert other.languages == translator.languages
    assert len(pickle.dumps(translator)) < 5_000


def test_ensembles_and_datastores_are_pickled_too(tmp_path: Path) -> None:
    first, second = save(tmp_path / "a"), save(tmp_path / "b", seed=2)
    for path in ([first, second], remembering(tmp_path / "c")):
        translator = Translator.from_pretrained(path)
        assert texts_of(pickle.loads(pickle.dumps(translator))) == texts_of(translator)


def test_another_process_opens_what_was_pickled(tmp_path: Path) -> None:
    translator = Translator.from_pretrained(save(tmp_path / "model"))
    code = """
import pickle, sys
print(*(one.text for one in pickle.load(sys.stdin.buffer).translate(sys.argv[1:])), sep="|")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *TEXTS[:4]],
        input=pickle.dumps(translator), cwd="/", env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.decode().strip() == "|".join(one.text for one in translator.translate(TEXTS[:4]))


def test_models_of_one_text_are_pickled_as_their_path(tmp_path: Path) -> None:
    pair = small.word_pair()
    causal = small.saved(tmp_path / "causal", pair, "causal")
    masked_words = Vocabulary("word", [*SPECIALS, MASK_TOKEN, *small.WORDS])
    masked = TokenizerPair(masked_words, masked_words)
    config = small.shape(masked, "masked")
    save_pretrained(tmp_path / "masked", build_model(config), config)
    masked.save(tmp_path / "masked")
    completer, again = (one := Completer.from_pretrained(causal)), pickle.loads(pickle.dumps(one))
    assert again.complete(TEXTS[:3]) == completer.complete(TEXTS[:3])
    for scorer in (TextScorer.from_pretrained(causal), TextScorer.from_pretrained(tmp_path / "masked")):
        assert pickle.loads(pickle.dumps(scorer)).score(TEXTS[:3]) == scorer.score(TEXTS[:3])
    filler = Filler.from_pretrained(tmp_path / "masked")
    assert copy.deepcopy(filler).fill(["ba <mask> ce"]) == filler.fill(["ba <mask> ce"])


def test_models_in_memory_are_pickled_whole_or_say_why_not() -> None:
    made, pair = the_model(), small.word_pair()
    for engine in ("module", "packed"):
        translator = Translator([made], pair, DecodingConfig(max_length=8), engine=engine, precision="float32")
        assert texts_of(pickle.loads(pickle.dumps(translator))) == texts_of(translator)
    if not isinstance(load_library(), str):
        translator = Translator([made], pair, engine="native")
        for double in (pickle.dumps, copy.deepcopy):
            with pytest.raises(ModelError, match=r"packed in memory.*\n.*from_pretrained"):
                double(translator)


# Files that changed


def test_what_is_loaded_later_is_found_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    translator = Translator.from_pretrained("model")
    monkeypatch.chdir("/")
    assert len(translator.score(TEXTS[:2], TEXTS[:2])) == 2
    assert texts_of(pickle.loads(pickle.dumps(translator))) == texts_of(translator)


LATE: dict[str, Callable[[Translator], object]] = {
    "alignments": lambda one: one.translate(TEXTS, alignments=True),
    "scores": lambda one: one.score(TEXTS[:2], TEXTS[:2]),
    "samples": lambda one: one.translate(TEXTS, sampling=True),
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
}


@pytest.mark.skipif(isinstance(load_library(), str), reason="without the library all is loaded at once")
@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
@pytest.mark.parametrize("change", ["weights", "shape", "gone"])
def test_other_weights_are_never_taken_for_those_that_were_opened(
    tmp_path: Path, late: Callable[[Translator], object], change: str
) -> None:
    folder = save(tmp_path / "model")
    translator = Translator.from_pretrained(folder)
    before = translator.translate(TEXTS)
    if change == "weights":
        save_pretrained(folder, the_model(seed=2), small.shape(small.word_pair()), DecodingConfig(max_length=8))
    elif change == "shape":  # the weights fit all the same
        file = folder / "config.json"
        file.write_text(file.read_text().replace('"num_heads": 2', '"num_heads": 4'))
    else:
        shutil.rmtree(folder)
    with pytest.raises(ModelError, match="opened from another file"):
        late(translator)
    assert translator.translate(TEXTS) == before


def test_a_pickle_of_files_that_changed_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    pickled = pickle.dumps(Translator.from_pretrained(folder))
    for name in ("model.safetensors", "vocabulary.json", "datastore.safetensors"):
        file = folder / name
        was = file.read_bytes() if file.exists() else None
        file.write_bytes((was or b"") + b" ")
        with pytest.raises(ModelError, match=name):
            pickle.loads(pickled)
        file.unlink() if was is None else file.write_bytes(was)
    assert pickle.loads(pickled).translate(TEXTS)


def test_the_same_model_brought_again_is_the_same(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    translator = Translator.from_pretrained(folder)
    own = translator.decoding
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    save_decoding(folder, own.replace({"length_penalty": 0.1}))  # how it is searched is no matter of its files
    assert len(translator.score(TEXTS[:2], TEXTS[:2])) == 2


def test_an_error_comes_from_another_process_as_it_is(tmp_path: Path) -> None:
    """A worker's error comes back to the process that asked it."""
    with pytest.raises(DragomanError) as caught:
        Translator.from_pretrained(tmp_path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.file, again.hint) == (caught.value.file, caught.value.hint)
