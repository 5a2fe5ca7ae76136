"""What a decoder's outputs were at each token of known pairs, and how they are found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman import pace
from dragoman.errors import ConfigError, ModelError
from dragoman.memory import Datastore, datastore, make_datastore
from dragoman.memory.datastore import principal_directions
from dragoman.models import save_pretrained
from dragoman.models.tensors import write_tensors
from dragoman.nn import Transformer
from dragoman.sequences import pad_rows
from dragoman.text.tokenizer import BOS, EOS
from end_to_end import small

PAIRS = [([5, 6, 7], [6, 5]), ([8], [9, 10, 4]), ([4, 4, 9, 11], [12]), ([5, 6], [6, 5])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small.saved(tmp_path / "model", small.word_pair())


def the_model(seed: int = 1) -> Transformer:
    made = small.model(small.shape(small.word_pair()), seed)
    assert isinstance(made, Transformer)
    return made.float()


def brute_force(store: Datastore, outputs: torch.Tensor) -> torch.Tensor:
    return torch.cdist(store.keys(outputs), store.states.float()).square()


def random_store(keys: int, size: int, centres: torch.Tensor | None = None) -> Datastore:
    states = torch.randn(keys, size).half()
    return Datastore(
        states, torch.full((keys,), EOS, dtype=torch.int32), torch.zeros(size), torch.eye(size),
        torch.zeros(0, size) if centres is None else centres, torch.ones(1), torch.ones(1),
        torch.ones(1), torch.zeros(32, dtype=torch.uint8),
    )  # fmt: skip


def test_keys_are_what_the_decoder_gives_step_by_step_and_values_what_follows(folder: Path) -> None:
    model = the_model()
    store = make_datastore(model, PAIRS, folder)
    assert store.tokens.tolist() == [6, 5, EOS, 9, 10, 4, EOS, 12, EOS, 6, 5, EOS]
    assert store.pairs == len(PAIRS)
    assert str(store) == "12 tokens of 4 pairs"
    place = 0
    for source, target in PAIRS:
        state = model.start(pad_rows([[*source, EOS]]))
        for token in (BOS, *target):
            with torch.no_grad():
                outputs = model.hidden_step(state, torch.tensor([token]))
            assert torch.allclose(store.keys(outputs)[0], store.states[place].float(), atol=5e-3)
            distances, places = store.nearest(outputs, 1)
            assert store.followers(places).item() == store.tokens[place]
            assert distances.item() < 1e-4
            place += 1


def test_the_nearest_are_those_of_a_search_through_all(folder: Path) -> None:
    store = make_datastore(the_model(), PAIRS, folder)
    outputs = torch.randn(7, 16)
    expected, order = brute_force(store, outputs).sort(1)
    distances, places = store.nearest(outputs, 5)
    assert torch.allclose(distances, expected[:, :5], rtol=1e-2)
    assert [set(row) for row in places[:, :3].tolist()] == [set(row) for row in order[:, :3].tolist()]
    assert store.nearest(outputs, 99)[0].shape == (7, len(store)), "no more than there are"


def test_cells_find_nearly_all_of_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datastore, "PER_CELL", 40)
    plain = random_store(4000, 6)
    centres = datastore.centres_of(plain.states)
    assert len(centres) == 100
    cells = Datastore(**{**{name: getattr(plain, name) for name in datastore._PARTS}, "centres": centres})
    outputs = torch.randn(50, 6)
    expected = brute_force(plain, outputs).sort(1)[1][:, :10]
    _, found = cells.nearest(outputs, 10)
    hits = [len(set(a) & set(b)) / 10 for a, b in zip(expected.tolist(), found.tolist(), strict=True)]
    assert np.mean(hits) > 0.9


def test_directions_are_those_of_a_singular_value_decomposition() -> None:
    rows = torch.randn(300, 8) * torch.tensor([1.0, 9.0, 2.0, 0.1, 5.0, 0.3, 3.0, 0.7]) + 4
    mean, directions = principal_directions(rows, 3)
    assert torch.allclose(mean, rows.mean(0))
    assert torch.allclose(directions.T @ directions, torch.eye(3), atol=1e-5)
    _, _, vectors = np.linalg.svd((rows - mean).numpy())
    assert np.allclose(np.abs(vectors[:3] @ directions.numpy()), np.eye(3), atol=1e-3)
    assert principal_directions(rows, 64)[1].shape == (8, 8)


def test_what_is_written_is_read_again(folder: Path) -> None:
    assert Datastore.load(folder) is None
    made = make_datastore(the_model(), PAIRS, folder)
    made.save(folder)
    read = Datastore.load(folder)
    assert read is not None
    for name in datastore._PARTS:
        assert torch.equal(getattr(read, name), getattr(made, name))
    again = make_datastore(the_model(), PAIRS, folder)
    assert torch.equal(again.states, made.states)
    assert again.temperature == made.temperature > 0


def test_one_without_a_falloff_has_the_same_weight_everywhere(folder: Path) -> None:
    made = make_datastore(the_model(), PAIRS, folder)
    parts = {part: getattr(made, part) for part in datastore._PARTS if part != "falloff"}
    write_tensors(folder / "datastore.safetensors", parts)
    read = Datastore.load(folder)
    assert read is not None
    assert (read.weight, read.falloff) == (made.weight, 0)


def test_a_datastore_of_other_weights_is_refused(folder: Path) -> None:
    make_datastore(the_model(), PAIRS, folder).save(folder)
    config = small.shape(small.word_pair())
    save_pretrained(folder, small.model(config, 2), config)
    with pytest.raises(ModelError, match="made with other weights"):
        Datastore.load(folder)


def test_another_file_is_refused(folder: Path) -> None:
    (folder / "datastore.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match="not a datastore"):
        Datastore.load(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", torch.tensor([99] * 12, dtype=torch.int32)),
        ("tokens", torch.tensor([4] * 11, dtype=torch.int32)),
        ("states", torch.zeros(12, 16)),
        ("mean", torch.zeros(15)),
        ("directions", torch.zeros(16)),
        ("centres", torch.zeros(3, 2)),
        ("weight", torch.tensor([1.0])),
        ("falloff", torch.tensor([-0.1])),
        ("falloff", torch.tensor([float("inf")])),
        ("temperature", torch.tensor([0.0])),
    ],
)
def test_parts_that_do_not_fit_are_refused(folder: Path, name: str, value: torch.Tensor) -> None:
    made = make_datastore(the_model(), PAIRS, folder)
    parts = {part: getattr(made, part) for part in datastore._PARTS}
    write_tensors(folder / "datastore.safetensors", {**parts, name: value})
    with pytest.raises(ModelError, match="do not fit each other or the model"):
        Datastore.load(folder)


def test_more_pairs_come_after_those_that_are_there(folder: Path) -> None:
    model = the_model()
    first = make_datastore(model, PAIRS[:3], folder)
    first.weight, first.falloff, first.temperature = torch.tensor([0.65]), torch.tensor([1.5]), torch.tensor([7.0])
    both = make_datastore(model, PAIRS[3:], folder, like=first)
    assert (both.weight, both.falloff, both.temperature) == (first.weight, first.falloff, first.temperature), (
        "as fitted"
    )
    assert both.tokens.tolist() == [6, 5, EOS, 9, 10, 4, EOS, 12, EOS, 6, 5, EOS]
    assert torch.equal(both.states[: len(first)], first.states)
    assert torch.equal(both.directions, first.directions)


def test_the_target_of_a_key(folder: Path) -> None:
    store = make_datastore(the_model(), PAIRS, folder)
    for place in range(len(store)):
        assert store.target(place) == PAIRS[int((store.tokens[:place] == EOS).sum())][1]


def test_progress_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "SECONDS", 0.0)
    lines: list[str] = []
    make_datastore(the_model(), PAIRS * 10, folder, report=lines.append)
    assert lines[0] == "datastore: the decoder's states at each token of 40 pairs"
    assert lines[-2] == "datastore: tokens 120 of 120, about a second left"
    assert lines[-1] == "datastore: 120 tokens of 40 pairs, 0 MB"
    assert str(make_datastore(the_model(), PAIRS[:1], folder, report=lines.append)) == "3 tokens of 1 pair"
    assert "datastore: the decoder's states at each token of 1 pair" in lines


def test_the_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"pip install 'dragoman\[knn\]'"):
        random_store(10, 4).nearest(torch.zeros(1, 4), 1)
