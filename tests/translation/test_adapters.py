"""Adapters over one base: chosen per request, equal to the merged model, sharing memory; served as further models."""

from __future__ import annotations

import pickle  # noqa: TID251 - nothing of it is kept: processes hand each other translators so

import pytest

from dragoman.cli import make_app
from dragoman.config import make_config
from dragoman.errors import ConfigError, ModelError
from dragoman.runs import pack
from dragoman.training import merge, train
from dragoman.translation import Translator
from small_runs import WORDS, small_config, write_corpus

pytestmark = pytest.mark.arithmetic
TEXTS = [" ".join(WORDS[i : i + 4]) for i in range(6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base, and two runs of adapters over it."""
    folder = tmp_path_factory.mktemp("base")
    base = train(small_config(folder, "base", "max_steps=60"), quiet=True).directory
    runs = {}
    for number, name in enumerate(("menus", "patents"), 1):
        (folder / name).mkdir()
        data = write_corpus(folder / name, 40, seed=number)
        training = {"init_from": str(base), "threads": 1, "lora_rank": 2, "max_steps": 12, "learning_rate": 3e-2,
                    "seed": number, "warmup_steps": 0}  # fmt: skip
        tree = {
            "out": str(folder / name / "run"),
            "data": data,
            "training": training,
            "validation": {"every": 4, "metric": "loss"},
        }
        runs[name] = train(make_config(tree), quiet=True).directory
    return base, runs


@pytest.mark.parametrize("engine", ["auto", "module"])
def test_an_adapter_is_chosen_per_request_and_is_the_merged_model(made, tmp_path, engine):
    base, runs = made
    both = Translator.from_pretrained(base, engine=engine, precision="float32", adapters=runs)
    plain = Translator.from_pretrained(base, engine=engine, precision="float32")
    for name in (None, "menus", "patents", None):
        if name is None:
            alone = plain
        else:
            alone = Translator.from_pretrained(
                merge(runs[name], tmp_path / f"{name}-{both.engine}-{len(list(tmp_path.iterdir()))}"),
                engine=engine, precision="float32",
            )  # fmt: skip
        expected = [(one.text, one.score) for one in alone.translate(TEXTS)]
        assert [(one.text, one.score) for one in both.translate(TEXTS, adapter=name)] == expected
    with pytest.raises(ConfigError, match="there is no such adapter"):
        both.translate(TEXTS, adapter="letters")
    again = pickle.loads(pickle.dumps(both))
    assert [one.text for one in again.translate(TEXTS, adapter="menus")] == [
        one.text for one in both.translate(TEXTS, adapter="menus")
    ]


def test_what_adapters_do_not_change_is_shared(made):
    base, runs = made
    both = Translator.from_pretrained(base, engine="module", adapters=runs)
    first, second = (dict(both.adapters[name].transformers[0].named_parameters()) for name in runs)
    shared = {name for name in first if first[name].data_ptr() == second[name].data_ptr()}
    own = set(first) - shared
    assert own
    assert all("attention.projection.weight" in name or "attention.output.weight" in name for name in own)


def test_adapters_of_another_base_or_over_several_are_refused(made):
    base, runs = made
    with pytest.raises(ModelError, match="another base"):
        Translator.from_pretrained(runs["menus"], adapters=runs)
    with pytest.raises(ConfigError, match="over one model"):
        Translator.from_pretrained([base, base], adapters=runs)
    with pytest.raises(ModelError, match="no adapter here"):
        Translator.from_pretrained(base, adapters={"x": base})


def test_the_base_of_a_merged_model_may_be_packed(made, tmp_path):
    base, runs = made
    packed = pack(base, tmp_path / "base.dragoman").directory
    one, other = merge(runs["menus"], tmp_path / "one"), merge(runs["menus"], tmp_path / "other", base=packed)
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def test_the_command_line_takes_an_adapter(made, capfd):
    base, runs = made
    app = make_app()
    app(["translate", str(base), TEXTS[0], "--adapter", str(runs["menus"] / "adapter")], standalone_mode=False)
    expected = Translator.from_pretrained(base, adapters=runs).translate(TEXTS[:1], adapter="menus")[0].text
    assert capfd.readouterr().out == f"{expected}\n"


def test_a_service_has_adapters_as_further_models(made):
    testing = pytest.importorskip("fastapi.testclient")
    from dragoman.serving import app

    base, runs = made
    models = [{"path": str(base), "name": "base"}]
    models += [{"path": str(base), "name": name, "adapter": str(one)} for name, one in runs.items()]
    service = app((), settings={"models": models, "precision": "float32", "log": "none"})
    both = Translator.from_pretrained(base, precision="float32", adapters=runs)
    with testing.TestClient(service, base_url="http://127.0.0.1") as client:
        for name in ("base", *runs):
            answer = client.post("/v1/translate", json={"texts": TEXTS, "model": name})
            assert answer.status_code == 200, answer.text
            found = [one["text"] for one in answer.json()["translations"]]
            assert found == [one.text for one in both.translate(TEXTS, adapter=None if name == "base" else name)]
