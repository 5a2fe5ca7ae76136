"""A model that asks a datastore too: its probabilities, its searches, and how much the datastore is to count."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError
from dragoman.inspection import explain
from dragoman.memory import Datastore, KnnModel, make_datastore
from dragoman.memory.knn import fit
from dragoman.nn import Transformer
from dragoman.search import Ensemble, score_serial
from dragoman.sequences import SourceBatch, sources_of
from dragoman.studies import evaluate, tune
from dragoman.translation import Translator
from end_to_end import small

pytestmark = pytest.mark.arithmetic

TEXTS = small.sentences(12, longest=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a datastore of pairs that it knows nothing of."""
    where = tmp_path_factory.mktemp("knn") / "model"
    small.save(where, the_model(), small.shape(small.word_pair()), small.word_pair(), DecodingConfig(max_length=8))
    make_datastore(the_model(), pairs(), where).save(where)
    return where


def the_model() -> Transformer:
    made = small.model(small.shape(small.word_pair()))
    assert isinstance(made, Transformer)
    return made.float()


def torch_free(folder: Path) -> Translator:
    """The same without a datastore, which needs no PyTorch where there is a library."""
    return Translator.from_pretrained(small.saved(folder / "plain", small.word_pair()))


def exact(folder: Path) -> Translator:
    """In float32, so that a known pair's states are nearer to its keys than any other, whatever the processor.

    Other keys are 0.1 away or more, and rounding less than 1e-4; in int8 it is up to the processor.
    """
    return Translator.from_pretrained(folder, engine="module")


def pairs() -> list[tuple[list[int], list[int]]]:
    tokenizer = small.word_pair().source
    rows = [tokenizer.encode(text) for text in TEXTS]
    return [(row, row[::-1]) for row in rows]


def stored(folder: Path) -> Datastore:
    store = Datastore.load(folder)
    assert store is not None
    return store


def by_hand(
    store: Datastore, own: torch.Tensor, outputs: torch.Tensor, weight: float | None, count: int
) -> list[float]:
    """The mixture of one row, each key at a time; the weight by the nearest one's distance if none is given."""
    key = store.keys(outputs[None])[0]
    squares = [float((key - state.float()).square().sum()) for state in store.states]
    order = sorted(range(len(store)), key=lambda place: squares[place])[:count]
    shares = [math.exp(-squares[place] / float(store.temperature)) for place in order]
    if weight is None:
        odds = float(store.weight) / (1 - float(store.weight))
        odds *= (float(store.temperature) / squares[order[0]]) ** float(store.falloff)
        weight = odds / (1 + odds)
    mixed = [(1 - weight) * math.exp(value) for value in own.tolist()]
    for place, share in zip(order, shares, strict=True):
        mixed[int(store.tokens[place])] += weight * share / sum(shares)
    return mixed


@pytest.mark.parametrize(("weight", "count"), [(0.25, 1), (0.5, 6), (0.9, 1000), (None, 6)])
def test_the_mixture_is_that_of_a_slow_sum(folder: Path, weight: float | None, count: int) -> None:
    store, model = stored(folder), the_model()
    knn = KnnModel(ModuleEngine(model), store, DecodingConfig(knn_weight=weight, knn_neighbours=min(count, 99)))
    source = SourceBatch.of(sources_of([[5, 6, 7], [8]]))
    own, outputs, _ = knn.engine.step_with_outputs(knn.start(source), torch.tensor([1, 1]))
    log_probs, _ = knn.step(knn.start(source), torch.tensor([1, 1]))
    for row in range(2):
        expected = by_hand(store, own[row], outputs[row], weight, min(count, 99))
        assert log_probs[row].exp().tolist() == pytest.approx(expected, rel=2e-2, abs=1e-5)
    assert log_probs.exp().sum(1).tolist() == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("falloff", [0.0, 0.8, 2.0])
def test_the_nearer_the_nearest_key_the_more_the_datastore_counts(folder: Path, falloff: float) -> None:
    store = stored(folder)
    store.falloff = torch.tensor([falloff])
    knn = KnnModel(ModuleEngine(the_model()), store, DecodingConfig(knn_neighbours=1))
    at = store.mean + store.states[:1].float() @ store.directions.T
    away = torch.nn.functional.normalize(store.directions.sum(1), dim=0)
    token, shares = int(store.tokens[0]), []
    for distance in (0.0, 0.001, 0.05, 0.1, 0.2):  # of the temperature; no other key is as near
        outputs = at + away * (distance * store.temperature).sqrt()
        log_probs = knn.mixed(torch.full((1, 50), -1e9).index_fill(1, torch.tensor([49]), 0.0), knn.neighbours(outputs))
        shares.append(float(log_probs[0, token].exp()))
        assert log_probs.isfinite().all()
        assert float(log_probs.exp().sum()) == pytest.approx(1)
    odds = [share / (1 - share) for share in shares]
    assert odds[0] == odds[1], "nearer than that there is no difference"
    assert odds[2] / odds[4] == pytest.approx(4**falloff, rel=0.05)
    assert odds[3] / odds[4] == pytest.approx(2**falloff, rel=0.05)


def test_a_weight_that_is_asked_for_is_the_same_everywhere(folder: Path) -> None:
    knn = KnnModel(ModuleEngine(the_model()), stored(folder), DecodingConfig(knn_weight=0.6))
    assert (knn.weight, knn.falloff) == (0.6, 0)


def test_without_weight_a_translation_is_the_models_own(folder: Path) -> None:
    plain = Translator([the_model()], small.word_pair(), DecodingConfig(max_length=8), engine="module")
    knn = Translator.from_pretrained(folder, engine="module")
    without = knn.translate_with(TEXTS, knn.options({"knn_weight": 0.0}))
    assert [one.text for one in without] == [one.text for one in plain.translate(TEXTS)]
    assert [one.text for one in knn.translate(TEXTS)] != [one.text for one in without], "there it has some"


def test_the_weight_that_suits_held_out_lines_is_found(folder: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    reference.write_text("".join(" ".join(text.split()[::-1]) + "\n" for text in TEXTS), encoding="utf-8")
    translator = exact(folder)
    own = translator.decoding.replace({"knn_neighbours": 1, "max_length": 12, "knn_weight": 0.0})
    found = tune(
        translator, source, reference, metric="exact", beam_sizes=(1,), knn_weights=(0.01, 0.99),
        right_to_left_weights=(0.0,), decoding=own, samples=9,
    )  # fmt: skip
    assert [(one.decoding.beam_size, one.decoding.knn_weight) for one in found.trials] == [(4, 0), (1, 0.01), (1, 0.99)]
    assert (found.best.decoding.knn_weight, found.best.score.value) == (0.99, 100)
    header, first, *_, last = found.lines()
    assert header.split()[:3] == ["beam", "penalty", "store"], "and no column for the direction that none differs in"
    assert first.split()[:4] == ["4", "gnmt", "0.60", "0.00"]
    assert "0.99" in last
    assert found.to_dict()["best"]["knn_weight"] == 0.99
    assert max(map(len, found.lines())) <= 90


def test_an_evaluation_tells_of_the_datastore(folder: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    translator = Translator.from_pretrained(folder)
    found = evaluate(translator, lines, lines, metrics=["exact"], bootstrap=9)
    assert (found.aids, found.to_dict()["aids"]) == (("datastore",), ("datastore",))
    without = evaluate(
        translator, lines, lines, metrics=["exact"], bootstrap=9, decoding=translator.options({"knn_weight": 0.0})
    )
    assert without.aids == ()


def test_a_weight_without_a_datastore_is_refused_before_any_search(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(TEXTS[0] + "\n", encoding="utf-8")
    said: list[str] = []
    for translator in (small.translator(small.word_pair()), torch_free(tmp_path)):
        with pytest.raises(ConfigError, match="no datastore"):
            translator.translate_with(TEXTS, translator.options({"knn_weight": 0.2}))
        with pytest.raises(ConfigError, match="no datastore"):
            tune(translator, lines, lines, knn_weights=(0.2,), report=said.append)
        with pytest.raises(ConfigError, match="right to left"):
            tune(translator, lines, lines, right_to_left_weights=(0.2,), report=said.append)
        assert translator.translate_with(TEXTS[:1], translator.options({"knn_weight": 0.0}))
    assert not said


def test_what_is_remembered_is_written_again(folder: Path) -> None:
    translator = exact(folder)
    sure = translator.options({"knn_weight": 0.99, "knn_neighbours": 1, "beam_size": 1, "max_length": 12})
    outputs = [one.text for one in translator.translate_with(TEXTS, sure)]
    assert outputs == [" ".join(text.split()[::-1]) for text in TEXTS]


@pytest.mark.parametrize("beam", [1, 4])
def test_batch_mates_change_nothing(folder: Path, beam: int) -> None:
    translator = Translator.from_pretrained(folder)
    options = translator.options({"beam_size": beam, "knn_weight": 0.5})
    together = translator.translate_with(TEXTS, options)
    for text, one in zip(TEXTS, together, strict=True):
        [alone] = translator.translate_with([text], options)
        assert alone.text == one.text
        assert alone.score == pytest.approx(one.score, abs=1e-4)


def test_scores_are_those_of_the_search(folder: Path) -> None:
    translator = Translator.from_pretrained(folder)
    found = translator.translate(TEXTS[:4], beam_size=1)
    for result, score in zip(found, translator.score(TEXTS[:4], [one.text for one in found]), strict=True):
        if result.finished:
            assert score.log_probability == pytest.approx(result.log_probability, abs=1e-4)
    model = translator.backend.torch.next_token_model(translator.decoding)
    [serial] = score_serial(model, SourceBatch.of(sources_of([[5, 6]])), [[7, 8]])
    assert len(serial) == 3


def test_what_is_explained_is_what_is_translated(folder: Path) -> None:
    translator = Translator.from_pretrained(folder, engine="module")
    sure = {"knn_weight": 0.99, "knn_neighbours": 1, "beam_size": 1}
    translator.decoding = translator.options(sure)
    [result] = translator.translate(TEXTS[:1])
    trace = explain(translator, TEXTS[0])
    assert trace.output.text == result.text
    assert trace.notes == (
        "The output was searched for with the model's datastore. The stages show the model alone, the steps both.",
    )
    translator.decoding = translator.options({"knn_weight": 0.0})
    assert explain(translator, TEXTS[0]).notes == ()


def test_each_member_of_an_ensemble_has_its_own(folder: Path, tmp_path: Path) -> None:
    other = small.saved(tmp_path / "other", small.word_pair(), seed=2)
    together = Translator.from_pretrained([folder, other])
    ensemble = together.backend.torch.next_token_model(DecodingConfig())
    assert isinstance(ensemble, Ensemble)
    assert [type(one).__name__ for one in ensemble.models] == ["KnnModel", "ModuleEngine"], (
        "the other one is in float64"
    )
    assert len(together.translate(TEXTS[:2])) == 2


@pytest.mark.parametrize("engine", ["native", "packed"])
def test_fast_engines_find_what_the_modules_find(folder: Path, engine: str) -> None:
    slow = Translator.from_pretrained(folder, engine="module")
    fast = Translator.from_pretrained(folder, engine=engine, precision="float32")
    assert fast.engine == f"{engine} in float32"
    options = slow.options({"knn_weight": 0.5})
    expected = slow.translate_with(TEXTS, options)
    for one, other in zip(expected, fast.translate_with(TEXTS, options), strict=True):
        assert other.text == one.text
        assert other.score == pytest.approx(one.score, abs=1e-3)


def test_held_out_pairs_like_those_that_are_known_give_weight(folder: Path) -> None:
    store, model = stored(folder), the_model()
    found = fit(model, store, pairs()[:6])
    assert found.tokens == sum(len(target) + 1 for _, target in pairs()[:6])
    assert found.weight > 0.95, "all of them are known"
    assert found.together < found.alone / 2


def test_held_out_pairs_unlike_them_take_it(folder: Path) -> None:
    store, model = stored(folder), the_model()
    own = Translator([model], small.word_pair(), DecodingConfig(max_length=8))
    outputs = [(own.tokenizers.source.encode(one.source), own.tokenizers.target.encode(one.text))
               for one in own.translate(small.sentences(40, seed=7), beam_size=1)]  # fmt: skip
    found = fit(model, store, outputs)
    assert found.weight < 0.3
    assert found.together <= found.alone


def test_what_is_fitted_is_what_makes_held_out_tokens_likeliest(folder: Path) -> None:
    """The loss that is told is that of the model with the datastore, and no other weight or falloff has less."""
    store, model = stored(folder), the_model()
    known, unknown = pairs()[:4], [(source, target[:-1]) for source, target in pairs()[4:]]
    found = fit(model, store, known + unknown)

    def loss() -> float:
        knn = KnnModel(ModuleEngine(model), store, DecodingConfig())
        scores = [
            score_serial(knn, SourceBatch.of(sources_of([source])), [target])[0] for source, target in known + unknown
        ]
        return -sum(sum(one) for one in scores) / sum(map(len, scores))

    assert loss() == pytest.approx(found.together, abs=1e-3)
    weight, falloff = store.weight, store.falloff
    for other in (-0.05, 0.05):
        store.weight = (weight + other).clamp(0.05, 0.95)
        assert loss() > found.together - 1e-3
    store.weight = weight
    for other in (-0.4, 0.4):
        store.falloff = (falloff + other).clamp(0, 2)
        assert loss() > found.together - 1e-3


def test_what_is_known_is_followed_and_the_rest_stays(folder: Path) -> None:
    """What a weight that is the same everywhere cannot do: it follows too little or changes too much."""
    translator, others = exact(folder), small.sentences(20, longest=6, seed=9)
    store = translator.backend.torch.datastores[0]
    assert store is not None
    options = translator.options({"beam_size": 1, "max_length": 12})
    alone = translator.translate_with(others, options.replace({"knn_weight": 0.0}))
    store.temperature = torch.tensor([0.3])

    def followed_and_same(weight: float, falloff: float) -> tuple[int, int]:
        store.weight, store.falloff = torch.tensor([weight]), torch.tensor([falloff])
        found = {}
        for name, texts in (("known", TEXTS), ("others", others)):
            found[name] = [one.text for one in translator.translate_with(texts, options)]
        return (
            sum(one == " ".join(text.split()[::-1]) for one, text in zip(found["known"], TEXTS, strict=True)),
            sum(one == other.text for one, other in zip(found["others"], alone, strict=True)),
        )

    # So it is with weights from 0.001 to 0.1, and with models of other seeds.
    assert followed_and_same(0.02, 2.0) == (len(TEXTS), len(others))
    for weight in (0.1, 0.3, 0.5, 0.7):
        followed, same = followed_and_same(weight, 0.0)
        assert followed < len(TEXTS) / 2 or same < len(others) / 2


def test_the_name_that_it_had_is_found_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="dragoman.memory.KnnModel"):
        from dragoman.decoding import Remembering  # type: ignore[missing-module-attribute]
    assert Remembering is KnnModel
