"""R-Drop against its formula written out with full logits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from dragoman.config import ModelConfig, make_config
from dragoman.data import Batch
from dragoman.errors import ConfigError
from dragoman.fast import module_hidden
from dragoman.losses import r_drop
from dragoman.losses.loss import smoothed_cross_entropy
from dragoman.losses.r_drop import agreeing_cross_entropy
from dragoman.models import build_model
from dragoman.sequences import SourceBatch, TargetBatch
from dragoman.training import train
from dragoman.training.step import batch_loss
from small_runs import assert_goes_on_bit_for_bit, losses, small_config, text_config

pytestmark = pytest.mark.arithmetic


def by_the_paper(first, second, generator, labels, smoothing: float, alpha: float) -> torch.Tensor:
    """Equations 1 to 4 of the paper, summed over the real labels."""
    real = labels != 0
    logits = [generator(hidden)[real] for hidden in (first, second)]
    entropies = [F.cross_entropy(one, labels[real], label_smoothing=smoothing, reduction="sum") for one in logits]
    p, q = (one.log_softmax(-1) for one in logits)
    apart = [F.kl_div(b, a, log_target=True, reduction="sum") for a, b in ((p, q), (q, p))]
    return entropies[0] + entropies[1] + alpha * (apart[0] + apart[1]) / 2


@given(
    seed=st.integers(0, 1000),
    bias=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    alpha=st.sampled_from([0.5, 5.0]),
    rows=st.sampled_from([1, 3, 100]),
    scale=st.sampled_from([1.0, 0.25]),
)
def test_loss_and_gradients_are_half_of_the_papers(seed, bias, smoothing, alpha, rows, scale):
    torch.manual_seed(seed)
    generator = nn.Linear(4, 7, bias=bias).double()
    first, second = (torch.randn(2, 5, 4, dtype=torch.double, requires_grad=True) for _ in range(2))
    labels = torch.randint(0, 7, (2, 5))  # some are padding
    parts = [first, second, *generator.parameters()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(r_drop, "ROWS", {"cpu": rows})
        sums = agreeing_cross_entropy(first, second, generator, labels, weight=alpha, smoothing=smoothing)
    ours = torch.autograd.grad(sums.loss * scale, parts)
    plain = by_the_paper(first, second, generator, labels, smoothing, alpha) / 2
    theirs = torch.autograd.grad(plain * scale, parts)
    assert float(sums.loss.detach()) == pytest.approx(float(plain.detach()), abs=1e-10)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= 1e-12
    assert sums.count == int((labels != 0).sum())


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_two_equal_passes_are_one(weight):
    torch.manual_seed(0)
    generator = nn.Linear(4, 7).double()
    hidden, labels = torch.randn(2, 5, 4, dtype=torch.double), torch.randint(0, 7, (2, 5))
    twice = agreeing_cross_entropy(hidden, hidden, generator, labels, weight=weight, smoothing=0.1)
    once = smoothed_cross_entropy(hidden, generator, labels, 0.1)
    assert twice.loss.item() == pytest.approx(once.loss.item(), abs=1e-12)
    assert float(twice.nll) == pytest.approx(float(once.nll), abs=1e-12)
    assert (int(twice.correct), twice.count) == (int(once.correct), once.count)


@torch.no_grad()
def test_labels_count_where_the_mask_says_so():
    torch.manual_seed(0)
    generator = nn.Linear(4, 7).double()
    both, labels = torch.randn(2, 2, 5, 4, dtype=torch.double), torch.randint(0, 7, (2, 5))
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    found = agreeing_cross_entropy(*both, generator, labels, weight=3.0, mask=mask)
    parts = [agreeing_cross_entropy(*both[:, n : n + 1, :to], generator, labels[n : n + 1, :to], weight=3.0, pad=-1)
             for n, to in enumerate((5, 2))]  # fmt: skip
    assert float(found.loss) == pytest.approx(sum(float(one.loss) for one in parts), abs=1e-12)
    assert found.count == 7


def test_bfloat16_products_give_float32_sums_and_gradients():
    torch.manual_seed(0)
    generator = nn.Linear(16, 50)
    both = [torch.randn(2, 5, 16, requires_grad=True) for _ in range(2)]
    labels = torch.randint(1, 50, (2, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = agreeing_cross_entropy(*both, generator, labels, weight=5.0)
    exact = agreeing_cross_entropy(*both, generator, labels, weight=5.0)
    assert rough.loss.dtype == torch.float32
    assert rough.loss.item() == pytest.approx(exact.loss.item(), rel=1e-2)
    grads = [torch.autograd.grad(sums.loss, [*both, generator.weight]) for sums in (rough, exact)]
    for a, b in zip(*grads, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() <= 0.02 * b.norm()


@pytest.mark.parametrize("compiled", [True, False])
def test_logits_exist_for_some_rows_only(monkeypatch, compiled):
    monkeypatch.setattr(r_drop, "ROWS", {"cpu": 3})
    seen = []
    logits_into = r_drop.logits_into
    monkeypatch.setattr(r_drop, "logits_into", lambda room, *rest: seen.append(len(room)) or logits_into(room, *rest))
    if not compiled:
        monkeypatch.setattr(r_drop, "kernels_for", lambda room: None)
    agreeing_cross_entropy(*torch.randn(2, 10, 4), nn.Linear(4, 7), torch.ones(10, dtype=torch.long), weight=1.0)
    assert seen == [3, 3, 3, 3, 3, 3, 1, 1]


def test_with_and_without_compiled_kernels_loss_and_gradients_are_the_same(monkeypatch):
    torch.manual_seed(0)
    generator = nn.Linear(16, 50)
    both = [torch.randn(2, 9, 16, requires_grad=True) for _ in range(2)]
    labels = torch.randint(0, 50, (2, 9))
    found = []
    for kernels_for in (r_drop.kernels_for, lambda room: None):
        monkeypatch.setattr(r_drop, "kernels_for", kernels_for)
        sums = agreeing_cross_entropy(*both, generator, labels, weight=3.0, smoothing=0.1)
        grads = torch.autograd.grad(sums.loss, [*both, *generator.parameters()])
        found.append((sums.loss.item(), float(sums.nll), int(sums.correct), grads))
    assert found[0][:3] == pytest.approx(found[1][:3], rel=1e-5)
    for one, other in zip(found[0][3], found[1][3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_an_update_sees_each_pair_twice_under_different_dropout():
    sizes = {"d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = ModelConfig.from_dict({"source_vocab": 20, "target_vocab": 20, "dropout": 0.3, **sizes})
    torch.manual_seed(0)
    model = build_model(config).double()
    ids = torch.randint(4, 20, (3, 6))
    real = torch.ones(3, 6, dtype=torch.bool)
    batch = Batch(SourceBatch(ids, real), TargetBatch(ids, real), 18, 15)
    passes = []

    def hidden(batch):
        passes.append([len(batch.source), len(batch.target)])
        return module_hidden(model, batch)

    apart = batch_loss(model, batch, 0.1, hidden, r_drop=5.0)
    torch.manual_seed(3)
    one = batch_loss(model, batch, 0.1, hidden)
    assert passes == [[6, 6], [3, 3]]
    assert apart.count == one.count
    still = batch_loss(model.eval(), batch, 0.1, hidden, r_drop=5.0)
    assert still.loss.item() == pytest.approx(batch_loss(model, batch, 0.1).loss.item(), abs=1e-9)
    assert apart.loss > still.loss, "without dropout the two passes agree"


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    settings = ("max_steps=20", "r_drop=5", "r_drop_after=7", "save_every=3", "accumulate=2")
    assert_goes_on_bit_for_bit(tmp_path, 9, *settings)


def test_it_begins_after_the_updates_of_one_pass(tmp_path):
    one, both, late = (
        losses(train(small_config(tmp_path, name, "max_steps=4", "log_every=1", *settings), quiet=True).directory)
        for name, settings in (
            ("one", ()), ("both", ("r_drop=5",)), ("late", ("r_drop=5", "r_drop_after=2"))
        )
    )  # fmt: skip
    assert [late[step] == one[step] for step in sorted(late)] == [True, True, False, False]
    assert late[1] != both[1]


def test_one_that_would_never_begin_is_told(tmp_path):
    for name, after in (("in-time", 2), ("never", 3)):
        settings = ("max_steps=3", "r_drop=5", f"r_drop_after={after}")
        log = train(small_config(tmp_path, name, *settings), quiet=True).directory / "train.log"
        told = "r_drop never begins: r_drop_after is 3, max_steps 3" in log.read_text(encoding="utf-8")
        assert told == (name == "never")


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_models_of_one_text_train_with_it(family, tmp_path):
    run = train(text_config(tmp_path, family, "run", "max_steps=3", "r_drop=1"), quiet=True)
    assert run.progress.step == 3


def test_without_dropout_it_is_refused():
    tree = {"out": "x", "model": {"dropout": 0.0}, "training": {"r_drop": 5.0}}
    with pytest.raises(ConfigError, match="r_drop compares two passes under different dropout"):
        make_config(tree)
    for other in ("attention_dropout", "activation_dropout", "word_dropout"):
        make_config({**tree, "model": {"dropout": 0.0, other: 0.1}})


def test_when_it_begins_says_nothing_without_it():
    with pytest.raises(ConfigError, match="r_drop_after says when r_drop begins, but r_drop is 0"):
        make_config({"out": "x", "training": {"r_drop_after": 100}})
