"""Settings: from TOML and `key=value` to one tree and back, every mistake told at once and in our words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import (
    SECTIONS,
    DecodingConfig,
    ModelConfig,
    TrainConfig,
    all_settings,
    find_setting,
    foreign_names,
    make_config,
    merge,
    parse_assignments,
    read_toml,
    write_toml,
)
from dragoman.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# There and back

texts = st.text(st.characters(exclude_categories=["Cs"]).filter(lambda c: c != "$"), max_size=20)


@given(
    out=texts,
    source=st.lists(texts, max_size=3),
    d_model=st.none() | st.sampled_from([16, 512]),
    rate=st.none() | st.floats(1e-9, 10),
    smoothing=st.floats(0, 0.99),
    joint=st.none() | st.booleans(),
    kind=st.sampled_from(["auto", "bpe", "word"]),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    out: str,
    source: list[str],
    d_model: int | None,
    rate: float | None,
    smoothing: float,
    joint: bool | None,
    kind: str,
) -> None:
    config = make_config(
        {
            "out": out,
            "data": {"source": source, "target": source, "source_language": out},
            "tokenizer": {"joint": joint, "kind": kind},
            "model": {"d_model": d_model},
            "training": {"learning_rate": rate, "label_smoothing": smoothing},
        }
    )
    path = tmp_path_factory.mktemp("config") / "config.toml"
    write_toml(config, path)
    assert make_config(read_toml(path)) == config
    once = path.read_bytes()
    write_toml(make_config(read_toml(path)), path)
    assert path.read_bytes() == once


def test_every_setting_has_a_default_but_the_run_directory(tmp_path: Path) -> None:
    config = TrainConfig(out="r")
    write_toml(config, tmp_path / "c.toml")
    assert make_config(read_toml(tmp_path / "c.toml")) == config
    with pytest.raises(ConfigError, match=r"out: must be given \(a path\)"):
        make_config({})


def test_a_file_without_sections_or_with_some_is_a_tree(tmp_path: Path) -> None:
    assert read_toml(write(tmp_path / "empty.toml", "")) == {}
    path = write(tmp_path / "c.toml", 'out = "r"\n[model]\nd_model = 64\n[training]\nlearning_rate = 1e-3\n')
    assert read_toml(path) == {"out": "r", "model": {"d_model": 64}, "training": {"learning_rate": 1e-3}}


def test_later_trees_win_key_by_key() -> None:
    first = {"out": "a", "model": {"d_model": 1, "d_ff": 2}, "data": {"source": ["x"]}}
    second = {"model": {"d_ff": 3}, "training": {"seed": 4}}
    expected = {"out": "b", "model": {"d_model": 1, "d_ff": 3}, "data": {"source": ["x"]}, "training": {"seed": 4}}
    assert merge(first, second, {"out": "b"}) == expected
    assert first["model"] == {"d_model": 1, "d_ff": 2}


def test_a_file_may_build_on_another_beside_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "below/a.toml", '[model]\nd_model = 64\nd_ff = 8\n[data]\nsource = ["a"]\n')
    write(tmp_path / "b.toml", 'base = "below/a.toml"\n[model]\nd_ff = 9\n')
    path = write(tmp_path / "c.toml", 'base = "b.toml"\n[training]\nseed = 3\n[data]\nsource = ["c"]\n')
    expected = {"model": {"d_model": 64, "d_ff": 9}, "data": {"source": ["c"]}, "training": {"seed": 3}}
    assert read_toml(path) == expected


@pytest.mark.parametrize("base", ["one.toml", "two.toml"])
def test_a_file_is_not_its_own_base(base: str, tmp_path: Path) -> None:
    write(tmp_path / "one.toml", f'base = "{base}"\n')
    write(tmp_path / "two.toml", 'base = "./one.toml"\n')
    with pytest.raises(ConfigError, match="its own base"):
        read_toml(tmp_path / "one.toml")


def test_a_base_that_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read") as caught:
        read_toml(write(tmp_path / "c.toml", 'base = "none.toml"\n'))
    assert caught.value.file == str(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="base must name a file"):
        read_toml(write(tmp_path / "c.toml", "base = 3\n"))


# The environment


def test_variables_are_put_into_paths_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPORA", "/a b/ä")
    monkeypatch.setenv("LANGUAGE", "de")
    text = '[data]\nsource = ["${CORPORA}/train.en", "plain"]\nprepared = "${CORPORA}/p.${LANGUAGE}"\n'
    text += '[training]\ninit_from = "${CORPORA}"\n'
    tree = read_toml(write(tmp_path / "c.toml", text))
    assert tree["data"] == {"source": ["/a b/ä/train.en", "plain"], "prepared": "/a b/ä/p.de"}
    assert tree["training"] == {"init_from": "${CORPORA}"}


def test_an_unset_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORPORA", raising=False)
    path = write(tmp_path / "c.toml", '[data]\nsource = ["${CORPORA}/train.en"]\n')
    with pytest.raises(ConfigError, match="the variable CORPORA is not set") as caught:
        read_toml(path)
    assert (caught.value.file, caught.value.found) == (str(path), "${CORPORA}/train.en")
    assert caught.value.hint == "export CORPORA=..."


# Names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hidden_size", "'hidden_size' is called 'model.d_model' here"),
        ("model.hidden_size", "'hidden_size' is called 'model.d_model' here"),
        ("dim-feedforward", "'dim-feedforward' is called 'model.d_ff' here"),
        ("NHead", "'NHead' is called 'model.num_heads' here"),
        ("d_modle", "did you mean 'model.d_model'?"),
        ("training.warmup_step", "did you mean 'training.warmup_steps'?"),
        ("xyzzy", "`dragoman settings` lists all settings"),
    ],
)
def test_unknown_names_are_answered(name: str, hint: str | None) -> None:
    with pytest.raises(ConfigError, match="unknown setting") as caught:
        find_setting(name)
    assert repr(name) in caught.value.message
    assert caught.value.hint == hint


def test_names_are_found_with_and_without_their_section() -> None:
    assert find_setting("d_model") == find_setting("model.d_model") == ("model", "d_model")
    assert find_setting("every") == ("validation", "every")
    with pytest.raises(ConfigError, match="there is no section 'modle'") as caught:
        find_setting("modle.d_model")
    assert caught.value.expected == ", ".join(SECTIONS)


def test_foreign_names_lead_to_names_of_ours_and_hide_none() -> None:
    ours = {one.dotted: one.name for one in all_settings()}
    assert set(foreign_names().values()) <= set(ours)
    assert not set(foreign_names()) & set(ours.values())


def test_no_name_is_in_two_sections() -> None:
    names = [name for fields in SECTIONS.values() for name in fields.settings]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[model]\nd_modle = 3\n", "unknown setting 'model.d_modle'", "did you mean 'model.d_model'?"),
        ("[model]\nseed = 3\n", "unknown setting 'model.seed'", "did you mean 'training.seed'?"),
        ("d_model = 3\n", "d_model is outside its section", "put it under [model]"),
        ("[modle]\nd_model = 3\n", "there is no section 'modle'", "d_model is in [model]: model.d_model"),
    ],
)
def test_names_in_a_file_are_checked(text: str, message: str, hint: str | None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(write(tmp_path / "c.toml", text))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.file == str(tmp_path / "c.toml")


@pytest.mark.parametrize("text", ["d_model 3", "[model\n", "a = \xff"])
def test_what_is_not_toml_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="not a TOML file") as caught:
        read_toml(tmp_path / "c.toml")
    assert caught.value.file == str(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path / "none.toml")


# Values


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("d_model=64", 64),
        ("model.dropout = 0.25 ", 0.25),
        ("joint=true", True),
        ('kind="bpe"', "bpe"),
        ("kind=bpe", "bpe"),
        ('source=["a.en", "b.en"]', ["a.en", "b.en"]),
        ("prepared=some where/x=y.txt", "some where/x=y.txt"),
        ("source_language=", ""),
        ("learning_rate=1e-3", 1e-3),
        ("init_from=2024-01-01x", "2024-01-01x"),
    ],
)
def test_assigned_values_are_toml_or_plain_strings(assignment: str, value: object) -> None:
    (section,) = parse_assignments([assignment]).values()
    (found,) = section.values()
    assert found == value
    assert type(found) is type(value)


def test_the_last_assignment_wins_and_sections_come_together() -> None:
    tree = parse_assignments(["d_model=1", "model.d_ff=2", "seed=3", "d_model=4"])
    assert tree == {"model": {"d_model": 4, "d_ff": 2}, "training": {"seed": 3}}


def test_an_assignment_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="key=value") as caught:
        parse_assignments(["d_model"])
    assert caught.value.found == "d_model"


@pytest.mark.parametrize("one", ["a.en", ["a.en"], ("a.en",), Path("a.en"), [Path("a.en")]])
def test_one_file_may_stand_without_a_list_and_as_a_path(one: object) -> None:
    assert make_config({"out": Path("r"), "data": {"source": one}}).data.source == ("a.en",)


@pytest.mark.parametrize("wrong", [3, {"a": 1}, [3], None])
def test_what_is_no_file_name_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"data\.source"):
        make_config({"out": "r", "data": {"source": wrong}})


# Mistakes


def test_all_mistakes_are_told_at_once() -> None:
    tree: dict[str, Any] = {
        "out": "r",
        "model": {"d_model": "wide", "norm": "middle"},
        "training": {"label_smoothing": 1.5, "seed": -1},
        "decoding": {"beam_size": 2, "n_best": 3},
        "nonsense": 1,
    }
    with pytest.raises(ConfigError) as caught:
        make_config(tree)
    lines = caught.value.message.split("\n")
    for place, found in (
        ("model.d_model", "'wide'"), ("model.norm", "'middle'"), ("training.label_smoothing", "1.5"),
        ("training.seed", "-1"), ("nonsense", "1"),
    ):  # fmt: skip
        (line,) = [line for line in lines if line.startswith(f"  {place}: ")]
        assert line.endswith(f"(found {found})")
    assert any("n_best 3 is more than beam_size 2" in line for line in lines)
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"d_model": 10, "num_heads": 3}, "d_model 10 does not divide into num_heads 3: set d_k and d_v too"),
        (
            {"tie_embeddings": "all", "source_vocab": 8, "target_vocab": 9},
            'tie_embeddings = "all" needs one joint vocabulary (source has 8 entries, target 9): '
            "set tokenizer.joint = true",
        ),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(sizes, file="config.json")
    assert caught.value.message == f"the settings do not hold together:\n  {message}"
    assert caught.value.file == "config.json"
    assert ModelConfig.from_dict({"d_model": 10, "num_heads": 3, "d_k": 4, "d_v": 5}).d_k == 4


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, "much"])
def test_numbers_are_numbers(value: object) -> None:
    with pytest.raises(ConfigError, match="length_penalty"):
        DecodingConfig.from_dict({"length_penalty": value})


def test_settings_are_frozen_and_a_change_is_checked() -> None:
    config = DecodingConfig()
    with pytest.raises(AttributeError, match="frozen"):
        config.beam_size = 3
    changed = config.replace({"beam_size": 9})
    assert (changed.beam_size, changed.given) == (9, {"beam_size"})
    assert config.beam_size == 4
    with pytest.raises(ConfigError, match="n_best 9 is more than beam_size 4"):
        config.replace({"n_best": 9})
