"""What each family is given to learn, and that an update of it is the same however it is split."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError
from dragoman.models import build_model
from dragoman.text.tokenizer import BOS, EOS, MASK, PAD
from dragoman.training.defaults import complete, estimate_seconds
from dragoman.training.step import BatchLoss, accumulate_gradients
from dragoman.training.tasks import Task, first_half, task_of
from dragoman.training.validate import teacher_forced
from small_runs import text_config

FAMILIES = ["causal", "masked"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def data(family: str, tmp_path_factory) -> Prepared:
    folder = tmp_path_factory.mktemp(family)
    return prepare(text_config(folder, family), folder / "prepared")


@pytest.fixture
def task(family: str, data: Prepared, tmp_path) -> Task:
    config, _ = complete(text_config(tmp_path, family), data, torch.device("cpu"))
    return task_of(config)


@pytest.fixture
def model(family: str, data: Prepared):
    torch.manual_seed(0)
    sizes = {"d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = ModelConfig.from_dict(
        {"family": family, "target_vocab": len(data.tokenizers.target), "dropout": 0.0, **sizes}
    )
    return build_model(config).double()


@pytest.mark.parametrize("family", ["causal"], indirect=True)
def test_a_decoder_reads_a_line_and_is_to_say_it_one_step_ahead(data, task):
    batch = task.batch(data.train, [0, 1, 2], 0)
    for row in range(3):
        line = data.train.target(row).tolist()
        padding = [PAD] * (batch.ids.shape[1] - len(line) - 1)
        assert batch.labels[row].tolist() == [*line, EOS, *padding]
        assert batch.ids[row, : len(line) + 1].tolist() == [BOS, *line]
    assert batch.target_tokens == int((batch.labels != PAD).sum())


@pytest.mark.parametrize("family", ["masked"], indirect=True)
def test_an_encoder_reads_a_line_with_gaps_and_is_to_fill_them(data, task):
    rows = range(50)
    batch = task.batch(data.train, rows, 0)
    for row in rows:
        line = [*data.train.target(row).tolist(), EOS]
        chosen = batch.label_mask[row]
        kept = torch.where(chosen, batch.labels[row], batch.ids[row])
        assert kept[: len(line)].tolist() == line
        assert not kept[len(line) :].any()
    assert (batch.ids == MASK).any()
    assert not task.batch(data.train, rows, 1).label_mask.equal(batch.label_mask), "each epoch hides others"
    fixed = task.batch(data.dev, [0, 1], None)
    assert task.batch(data.dev, [0, 1], None).label_mask.equal(fixed.label_mask)


def test_four_micro_batches_are_one_and_so_are_two_ranks(data, task, model):
    def gradients(parts: list[list[int]]) -> tuple[float, list[torch.Tensor]]:
        model.zero_grad()
        batches = [task.batch(data.train, rows, 3) for rows in parts]
        sums = accumulate_gradients(BatchLoss(model), batches, labels, smoothing=0.1)
        return sums.loss / labels, [parameter.grad.clone() for parameter in model.parameters()]

    rows = list(range(24))
    labels = task.batch(data.train, rows, 3).target_tokens
    loss, whole = gradients([rows])
    micro = [rows[start : start + 6] for start in range(0, 24, 6)]
    assert sum(task.batch(data.train, part, 3).target_tokens for part in micro) == labels
    split_loss, split = gradients(micro)
    ranks = [gradients(micro[rank::2]) for rank in range(2)]
    assert split_loss == pytest.approx(loss, abs=1e-12)
    assert ranks[0][0] + ranks[1][0] == pytest.approx(loss, abs=1e-12)
    for a, b, c, d in zip(whole, split, ranks[0][1], ranks[1][1], strict=True):
        assert (a - b).abs().max() <= 1e-12
        assert (a - (c + d)).abs().max() <= 1e-12


def test_the_dev_loss_is_the_mean_over_predicted_tokens_however_they_are_batched(data, task, model):
    sums = [teacher_forced(model.eval(), data.dev, task, batch_tokens) for batch_tokens in (16, 4096)]
    assert sums[0].labels == sums[1].labels > 0
    assert sums[0].nll == pytest.approx(sums[1].nll, abs=1e-9)
    batch = task.batch(data.dev, range(len(data.dev)), None)
    with torch.no_grad():
        log_probs = model(batch.ids).log_softmax(-1)
    real = batch.label_mask
    by_hand = -log_probs[real].gather(1, batch.labels[real][:, None]).sum()
    assert sums[0].nll == pytest.approx(float(by_hand), abs=1e-9)
    assert sums[0].labels == int(real.sum())


def test_what_is_open_is_chosen_for_a_text(data, family, tmp_path):
    config = text_config(tmp_path, family).replace({"model": {"family": family}, "training": {}})
    completed, _ = complete(config, data, torch.device("cpu"))
    assert completed.validation.metric == "loss"
    assert completed.training.label_smoothing == 0.0
    assert completed.model.source_vocab is None
    layers = {"causal": (None, 2), "masked": (2, None)}[family]
    assert (completed.model.num_encoder_layers, completed.model.num_decoder_layers) == layers
    assert (completed.model.tie_embeddings, completed.model.d_model) == ("decoder", 128)
    assert estimate_seconds(completed, data, torch.device("cpu")) > 0
    with pytest.raises(ConfigError, match=f"bleu is not defined for a {family} model"):
        complete(config.replace({"validation": {"metric": "bleu"}}), data, torch.device("cpu"))


@pytest.mark.parametrize(
    ("line", "prompt"),
    [("I like fish very much", "I like"), ("abcdef", "abc"), ("a bcdefgh", "a"), (" abc", " a"), ("x", ""), ("", "")],
)
def test_a_prompt_is_the_first_half_of_a_line(line, prompt):
    assert first_half(line) == prompt
