from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from dragoman.losses import loss as loss_module
from dragoman.losses.loss import smoothed_cross_entropy


@given(
    seed=st.integers(0, 1000),
    bias=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    rows=st.sampled_from([1, 3, 100]),
    scale=st.sampled_from([1.0, 0.25]),
)
def test_loss_and_gradients_are_those_of_the_full_logits(seed, bias, smoothing, rows, scale):
    torch.manual_seed(seed)
    generator = nn.Linear(4, 7, bias=bias).double()
    hidden = torch.randn(2, 5, 4, dtype=torch.double, requires_grad=True)
    labels = torch.randint(0, 7, (2, 5))  # some are padding
    parts = [hidden, *generator.parameters()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_module, "ROWS", {"cpu": rows})
        sums = smoothed_cross_entropy(hidden, generator, labels, smoothing)
    ours = torch.autograd.grad(sums.loss * scale, parts)

    logits = generator(hidden).flatten(0, 1)
    flat = labels.flatten()
    plain = F.cross_entropy(logits, flat, ignore_index=0, label_smoothing=smoothing, reduction="sum")
    theirs = torch.autograd.grad(plain * scale, parts, retain_graph=True)
    assert float(sums.loss.detach()) == pytest.approx(float(plain.detach()), abs=1e-10)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= 1e-12
    real = flat != 0
    assert sums.count == int(real.sum())
    nll = F.cross_entropy(logits[real], flat[real], reduction="sum").detach()
    assert float(sums.nll) == pytest.approx(float(nll), abs=1e-10)
    assert int(sums.correct) == int((logits[real].argmax(-1) == flat[real]).sum())


def test_labels_count_where_the_mask_says_so():
    torch.manual_seed(0)
    generator = nn.Linear(4, 7).double()
    hidden, labels = torch.randn(2, 5, 4, dtype=torch.double), torch.randint(0, 7, (2, 5))
    labels[0] = 0  # a token here, whatever pads other vocabularies
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    found = smoothed_cross_entropy(hidden, generator, labels, 0.1, mask=mask)
    logits = generator(hidden)[mask]
    plain = F.cross_entropy(logits, labels[mask], label_smoothing=0.1, reduction="sum")
    assert float(found.loss.detach()) == pytest.approx(float(plain.detach()), abs=1e-10)
    assert found.count == 7


def test_without_gradients_nothing_is_kept():
    generator = nn.Linear(4, 7)
    with torch.no_grad():
        sums = smoothed_cross_entropy(torch.randn(2, 5, 4), generator, torch.ones(2, 5, dtype=torch.long))
    assert not sums.loss.requires_grad


def test_bfloat16_products_give_float32_sums_and_gradients():
    torch.manual_seed(0)
    generator = nn.Linear(16, 50)
    hidden = torch.randn(2, 5, 16, requires_grad=True)
    labels = torch.randint(1, 50, (2, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = smoothed_cross_entropy(hidden, generator, labels, 0.1)
    exact = smoothed_cross_entropy(hidden, generator, labels, 0.1)
    assert rough.loss.dtype == torch.float32
    assert rough.loss.item() == pytest.approx(exact.loss.item(), rel=1e-2)
    grads = [torch.autograd.grad(sums.loss, [hidden, generator.weight]) for sums in (rough, exact)]
    for a, b in zip(*grads, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() <= 0.02 * b.norm()
