"""Directories of Sockeye: its formulas on random models; texts, searches and refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.errors import DataError, ModelError
from dragoman.models import load_pretrained
from oracle import sockeye

KINDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "post": {"before": "", "after": "drn", "act": "swish1", "layers": (1, 2), "heads": 4},
    "tied": {"rows": (20, 20), "act": "gelu"},
}


class Made(NamedTuple):
    """A directory, the model in it, and the run directory that it became."""

    theirs: Path
    run: Path
    model: sockeye.Model
    target: list[str]


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, given = tmp_path_factory.mktemp("sockeye"), sockeye.options(**KINDS[request.param])
    state = sockeye.random_state(given, list(KINDS).index(request.param), end=-9.0)
    if request.param == "tied":
        for name in ("embedding_target.embedding.weight", "output_layer.weight"):
            state[name] = state["embedding_source.embedding.weight"].clone()
    sides = sockeye.save(folder / "theirs", given, state)
    dragoman.import_model(folder / "theirs", folder / "ours")
    return Made(folder / "theirs", folder / "ours", sockeye.Model(state, given), sides[1])


def lines(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(18)}" for _ in range(draw.randint(1, 8))) for _ in range(count)]


def test_logits_and_outputs_are_those_of_their_formulas(made: Made) -> None:
    found = load_pretrained(made.run)
    ours, translator = found.model.double(), Translator.from_pretrained(made.run, precision="float32")
    assert found.config.bias is False
    for line in lines(6):
        read = translator.tokenizers.encode_source(line).framed
        assert read == [*(4 + int(word[1:]) if int(word[1:]) < 16 else 1 for word in line.split()), 3]
        draw = random.Random(line)
        written = [2, *(draw.randrange(4, len(made.target)) for _ in range(5))]
        expected = made.model.logits(read, written)
        assert (ours(torch.tensor([read]), torch.tensor([written]))[0] - expected).abs().max() <= 1e-5
        for beam in (1, 4):
            ids, score = made.model.beam(read, beam, len(read) - 1)
            [output] = translator.translate([line], beam_size=beam)
            assert list(output.tokens) == [made.target[one] for one in ids]
            if beam > 1:
                assert output.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("made", ["tied"], indirect=True)
def test_what_is_equal_is_one_table_and_the_search_is_theirs(made: Made) -> None:
    found = load_pretrained(made.run)
    assert found.config.tie_embeddings == "all"
    decoding = found.decoding
    assert (decoding.beam_size, decoding.length_penalty, decoding.length_penalty_formula) == (5, 1.0, "power")
    assert (decoding.output_limit(7), decoding.max_source_length, decoding.unknown) == (7, 95, "keep")


@pytest.mark.parametrize("made", ["usual"], indirect=True)
def test_parameters_are_unpickled_only_if_that_is_asked_for(made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "theirs"
    copy.mkdir()
    for name in ("config", "vocab.src.0.json", "vocab.trg.0.json"):
        (copy / name).write_bytes((made.theirs / name).read_bytes())
    torch.save({name: tensor.float() for name, tensor in made.model.state.items()}, copy / "params.best")  # noqa: TID251
    with pytest.raises(ModelError, match="--unpickle"):
        dragoman.import_model(copy, tmp_path / "ours")
    dragoman.import_model(copy, tmp_path / "ours", unpickle=True)
    files = {path.name: path.read_bytes() for path in made.run.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()} == files


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [("decoder_type: transformer", "decoder_type: ssru_transformer", "decoder_type"),
     ("positional_embedding_type: fixed", "positional_embedding_type: learned", "positional_embedding_type"),
     ("postprocess_sequence: dr", "postprocess_sequence: drn", "preprocess_sequence"),
     ("use_glu: false", "use_glu: true", "use_glu"), ("use_lhuc: false", "use_lhuc: true", "use_lhuc"),
     ("neural_vocab_selection: null", "neural_vocab_selection: logit_max", "neural_vocab_selection"),
     ("num_source_factors: 1", "num_source_factors: 2", "num_source_factors"),
     ("dtype: float32", "dtype: int8", "dtype"), ("lhuc: false\nneural", "lhuc: false\nother: 3\nneural", "other"),
     ("!DataStatistics", "!!python/object:os.system", "YAML"), ("!DataStatistics", "!Other", "YAML")],
)  # fmt: skip
def test_what_would_compute_something_else_is_refused_by_its_name(
    old: str, new: str, told: str, tmp_path: Path
) -> None:
    given = sockeye.options(layers=(1, 1), width=8)
    sockeye.save(tmp_path / "theirs", given, sockeye.random_state(given, 0))
    file, text = tmp_path / "theirs" / "config", sockeye.config(given)
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=told):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    file.write_text(text)
    (tmp_path / "theirs" / "vocab.src.0.json").write_text('{"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}')
    with pytest.raises(DataError, match="another size"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
