"""What training targets choose of a search: how long outputs may be, and whether what repeats itself is a loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig, make_config
from dragoman.data import Prepared, prepare
from dragoman.models import build_model, save_pretrained
from dragoman.nn import Transformer
from dragoman.search.guard import is_loop
from dragoman.training.defaults import complete
from dragoman.training.limits import fit_outputs, share_of_loops
from dragoman.training.tasks import task_of
from dragoman.translation import Translator
from end_to_end import small

COUNTED = " ".join(str(number % 10) for number in range(70))
VARIED = [" ".join(f"w{(7 * row + place) % 60}" for place in range(12)) for row in range(40)]


def prepared(folder: Path, targets: list[str], **decoding: object) -> tuple[Prepared, DecodingConfig]:
    for name, lines in (("s", [f"say {row % 9}" for row in range(len(targets))]), ("t", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    files = {"source": [str(folder / "s")], "target": [str(folder / "t")]}
    data = {**files, "dev_source": files["source"], "dev_target": files["target"]}
    config = make_config({"out": "r", "data": data, "tokenizer": {"kind": "word"}, "decoding": decoding})
    return prepare(config, folder / "data"), config.decoding


def test_targets_that_count_up_choose_a_longer_limit_and_no_guard(tmp_path: Path) -> None:
    data, options = prepared(tmp_path, [COUNTED] * 40)
    assert is_loop(list(map(int, COUNTED.split())), options.loop_guard)
    chosen = {name: value for one in fit_outputs(options, data) for name, value in one.values.items()}
    assert chosen["loop_guard"] == 0
    search = options.replace(chosen)
    assert all(
        search.output_limit(int(source)) >= target
        for source, target in zip(data.train.source_lengths, data.train.target_lengths, strict=True)
    )


def test_usual_targets_choose_nothing(tmp_path: Path) -> None:
    data, options = prepared(tmp_path, VARIED)
    assert fit_outputs(options, data) == []
    assert share_of_loops(data.train, options.loop_guard) == 0


@pytest.mark.parametrize(
    "given", [{"max_length": 5}, {"max_length_offset": 50}, {"max_length_factor": 1.0}, {"loop_guard": 3}]
)
def test_what_was_given_stays(given: dict[str, object], tmp_path: Path) -> None:
    data, options = prepared(tmp_path, [COUNTED] * 40, **given)
    chosen = {name: value for one in fit_outputs(options, data) for name, value in one.values.items()}
    assert not given.keys() & chosen.keys()
    assert ("loop_guard" in given) == ("loop_guard" not in chosen)


def test_outputs_may_stay_as_long_as_those_of_the_model_to_start_from(tmp_path: Path) -> None:
    data, options = prepared(tmp_path, VARIED)
    config = small.shape(small.word_pair())
    base = options.replace({"max_length_offset": 300})
    save_pretrained(tmp_path / "base", small.model(config), config, base)
    [one] = fit_outputs(options, data, str(tmp_path / "base"))
    assert one.values == {"max_length_offset": 300}


def test_the_choice_is_told_and_stored(tmp_path: Path) -> None:
    data, options = prepared(tmp_path, [COUNTED] * 40)
    config = make_config({"out": "r", "model": {"d_model": 16, "num_heads": 2}, "training": {"max_steps": 5}})
    completed, choices = complete(config, data, torch.device("cpu"))
    told = {one.key: one.value for one in choices}
    assert told["decoding.loop_guard"] == completed.decoding.loop_guard == 0
    assert told["decoding.max_length_offset"] == completed.decoding.max_length_offset > options.max_length_offset


def test_a_validation_translates_as_translate_does_and_counts_what_was_cut(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, VARIED)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    tree = {"out": "r", "model": {**sizes, "right_to_left": False}, "training": {"max_steps": 5}}
    config, _ = complete(make_config(tree), data, torch.device("cpu"))
    torch.manual_seed(2)
    model = build_model(config.model).eval()
    assert isinstance(model, Transformer)
    found = task_of(config).outputs(model, data, config)
    translator = Translator([model], data.tokenizers, config.decoding, precision="float32")
    expected = translator.translate(data.dev_source, beam_size=1)
    assert found.lines == [one.text for one in expected]
    assert found.cut == sum(not one.finished for one in expected)
