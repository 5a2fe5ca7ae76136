"""Adapters of low rank: exact sums, only they are trained, any way of training and resuming, chosen per request."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file

from dragoman.config import ModelConfig, TrainingConfig, make_config, merge, parse_assignments
from dragoman.errors import ConfigError, ModelError
from dragoman.models import build_model, load_pretrained
from dragoman.models.adapters import load_adapter
from dragoman.models.low_rank import ATTENTION, FEED_FORWARD, LowRank, matrices_in
from dragoman.models.tensors import read_tensors
from dragoman.optimizers.moving_average import ExponentialMovingAverage
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.training import average, train
from dragoman.training import merge as merge_adapter
from small_runs import digests, losses, small_config, train_until_killed, write_corpus

pytestmark = pytest.mark.arithmetic


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    return train(small_config(folder, "base", "max_steps=40"), quiet=True).directory


def lora_config(folder, base, *settings, out="run"):
    """A run of adapters over the base, on other pairs."""
    if not (folder / "source.txt").exists():
        write_corpus(folder, 60, seed=1)
    data = {key: [str(folder / f"{key}.txt")] for key in ("source", "target", "dev_source", "dev_target")}
    training = {"init_from": str(base), "threads": 1, "lora_rank": 3, "max_steps": 12, "batch_tokens": 128,
                "warmup_steps": 2, "log_every": 1, "learning_rate": 3e-2}  # fmt: skip
    tree = {"out": str(folder / out), "data": data, "training": training, "validation": {"every": 4, "metric": "loss"}}
    return make_config(merge(tree, parse_assignments(settings)))


def small_model(dtype=torch.float32):
    torch.manual_seed(3)
    settings = {"source_vocab": 11, "target_vocab": 13, "d_model": 16, "d_ff": 32, "num_heads": 2,
                "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0}  # fmt: skip
    return build_model(ModelConfig(**settings)).to(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_merged_is_base_and_scaled_product(dtype, tolerance):
    model = small_model(dtype)
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    factors = LowRank(model, 2, 5.0, matrices_in(model, (*ATTENTION, *FEED_FORWARD)))
    torch.manual_seed(0)
    for one in factors.parameters():
        one.data.normal_()
    factors.merge()
    factors.merge()  # it does not add up
    expected = dict(before)
    for one in factors.matrices:
        pair = factors.pair(one)
        change = torch.zeros_like(before[one.parameter], dtype=torch.float64)
        change[slice(*one.rows)] = 2.5 * pair.b.double() @ pair.a.double()
        expected[one.parameter] = expected[one.parameter].double() + change
    for name, one in model.named_parameters():
        assert (one.double() - expected[name].double()).abs().max() <= tolerance * one.abs().max().clamp_min(1)
        assert one.dtype == dtype
    assert len(factors.matrices) == 3 * 4 + 2 * 2


def test_gradients_of_the_factors_are_those_of_autograd():
    model = small_model(torch.float64)
    factors = LowRank(model, 2, 3.0, matrices_in(model))
    torch.manual_seed(0)
    for one in factors.parameters():
        one.data.normal_()
    factors.merge()
    names = {one.parameter for one in factors.matrices}
    weights = {name: one for name, one in model.named_parameters() if name in names}
    for micro in range(2):  # gradients of micro-batches add up
        total = sum((one * one.detach().sin().add(micro)).sum() for one in weights.values())
        total.backward()
    factors.take_gradients()
    base = {name: one.detach().clone() for name, one in factors._base.items()}
    free = {name: one.detach().clone().requires_grad_() for name, one in factors.named_parameters()}
    total = torch.zeros((), dtype=torch.float64)
    for one in factors.matrices:
        merged = base[one.parameter][slice(*one.rows)] + factors.scale * free[f"{one.name}.b"] @ free[f"{one.name}.a"]
        total = total + sum((merged * merged.detach().sin().add(micro)).sum() for micro in range(2))
    total.backward()
    for name, one in factors.named_parameters():
        torch.testing.assert_close(one.grad, free[name].grad, rtol=1e-12, atol=1e-12)
    assert all(one.grad is None for one in weights.values())


def test_only_adapters_are_trained_and_are_saved_apart(tmp_path, base):
    run = train(lora_config(tmp_path, base), quiet=True).directory
    before, after = (read_tensors(one / "model.safetensors") for one in (base, run))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("attention" in name and name.endswith(("projection.weight", "output.weight")) for name in changed)
    adapter = load_adapter(run)
    assert (adapter.rank, adapter.alpha, adapter.base) == (3, 6.0, str(base))
    assert {name.split(".")[-2] for name in adapter.factors} == set(ATTENTION)
    small, whole = (one.stat().st_size for one in (run / "adapter" / "adapter.safetensors", run / "model.safetensors"))
    assert small < whole
    for one in load_pretrained(run).model.state_dict().values():
        assert torch.isfinite(one).all()
    log = (run / "train.log").read_text(encoding="utf-8")
    assert "parameters of adapters are trained, of rank 3 on query, key, value, output" in log


def test_merging_gives_the_model_of_the_run_and_another_base_is_refused(tmp_path, base):
    run = train(lora_config(tmp_path, base, "training.lora_matrices=query,inner,outer"), quiet=True).directory
    out = merge_adapter(run, tmp_path / "merged")
    for name, one in read_tensors(run / "model.safetensors").items():
        assert torch.equal(one, read_tensors(out / "model.safetensors")[name]), name
    for name in ("config.json", "vocabulary.source.json"):
        assert (out / name).exists() == (base / name).exists()
    moved = shutil.copytree(base, tmp_path / "moved")
    assert merge_adapter(run / "adapter", tmp_path / "again", moved) == tmp_path / "again"
    with pytest.raises(ModelError, match="another base"):
        merge_adapter(run, tmp_path / "third", run)
    with pytest.raises(ConfigError, match="would overwrite"):
        merge_adapter(run, out)
    with pytest.raises(ModelError, match="no adapter here"):
        merge_adapter(base, tmp_path / "fourth")


@pytest.mark.parametrize(
    "settings",
    [
        ("training.ema_decay=0.9", "training.accumulate=2", "training.r_drop=1"),
        ("training.optimizer=muon", "training.ema_decay=0", "training.lora_matrices=query, value,inner"),
    ],
)
def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path, base, settings):
    whole, broken = (lora_config(tmp_path, base, *settings, out=name) for name in ("whole", "broken"))
    train(whole, quiet=True)
    train_until_killed(broken, 8)
    train(broken, resume=True, quiet=True)
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert digests(tmp_path / "broken") == digests(tmp_path / "whole")
    assert load_adapter(tmp_path / "broken").factors.keys() == load_adapter(tmp_path / "whole").factors.keys()


def test_a_run_goes_on_where_its_base_is_now_and_not_beside_another(tmp_path, base):
    moved = shutil.copytree(base, tmp_path / "moved")
    config = lora_config(tmp_path, moved)
    train_until_killed(config, 4)
    shutil.move(moved, tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is missing"):
        train(config, resume=True, quiet=True)
    other = lora_config(tmp_path, tmp_path / "run")
    with pytest.raises(ModelError, match="another base"):
        train(other, resume=True, quiet=True)
    run = train(lora_config(tmp_path, tmp_path / "elsewhere"), resume=True, quiet=True)
    assert run.progress.step == 12


def test_averages_of_checkpoints_are_those_of_the_factors(tmp_path, base):
    settings = ("training.average_last=2", "training.keep_last=3", "training.ema_decay=0")
    run = train(lora_config(tmp_path, base, *settings), quiet=True).directory
    made = average(run, 2, tmp_path / "average")
    assert load_pretrained(made.directory).config == load_pretrained(run).config
    one = load_adapter(run).factors  # of a whole run they stay of low rank
    assert all(tensor.shape[0 if name.endswith(".a") else 1] == 3 for name, tensor in one.items())


def test_the_moving_average_is_one_of_factors():
    model = small_model()
    factors = LowRank(model, 2, 2.0, matrices_in(model))
    average_ = ExponentialMovingAverage(factors, 0.5)
    for one in factors.parameters():
        one.data.fill_(1.0)
    factors.merge()
    merged = {name: one.detach().clone() for name, one in model.named_parameters()}
    average_.update(factors)
    with average_.applied(factors):
        inside = {name: one.detach().clone() for name, one in model.named_parameters()}
    assert any(not torch.equal(inside[name], merged[name]) for name in merged)
    for name, one in model.named_parameters():
        assert torch.equal(one, merged[name])


def test_a_rank_that_no_matrix_has_is_refused(tmp_path, base):
    with pytest.raises(ConfigError, match="cannot have this rank"):
        train(lora_config(tmp_path, base, "training.lora_rank=33"), quiet=True)
    with pytest.raises(ConfigError, match="none is named"):
        make_config({"out": "x", "training": {"lora_rank": 2}})
    with pytest.raises(ConfigError, match="would do nothing"):
        train(lora_config(tmp_path, base, "training.lora_rank=0", "training.lora_alpha=4"), quiet=True)


def test_muon_moves_factors():
    model = small_model()
    factors = LowRank(model, 2, 2.0, matrices_in(model))
    optimizer = make_optimizer(factors, TrainingConfig(optimizer="muon"))
    assert {"momentum"} <= {key for group in optimizer.param_groups for key in group}
    before = [one.detach().clone() for one in factors.parameters()]
    for one in factors.parameters():
        one.grad = torch.randn_like(one)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    assert all(not torch.equal(one, old) for one, old in zip(factors.parameters(), before, strict=True))


def test_frozen_parts_stay_and_the_log_tells(tmp_path, base):
    settings = ("training.lora_rank=0", "training.freeze=encoder, embeddings,decoder.layers.0.feed_forward")
    run = train(lora_config(tmp_path, base, *settings, "training.learning_rate=1e-3"), quiet=True).directory
    before, after = (read_tensors(one / "model.safetensors") for one in (base, run))
    same = {name for name in before if torch.equal(before[name], after[name])}
    frozen = {name for name in before if name.startswith(("encoder.", "source_embedding", "target_embedding"))}
    frozen |= {name for name in before if name.startswith("decoder.layers.0.feed_forward.")}
    tied = {"generator.weight"} & before.keys()
    assert frozen <= same <= frozen | tied
    total = sum(one.numel() for one in load_file(base / "model.safetensors").values())  # tied ones stand there once
    log = (run / "train.log").read_text(encoding="utf-8")
    assert f"of {total:,} parameters on cpu" in log


def test_frozen_matrices_get_no_adapters(tmp_path, base):
    run = train(lora_config(tmp_path, base, "training.freeze=encoder", "training.max_steps=2"), quiet=True).directory
    assert {name.split(".")[0] for name in load_adapter(run).factors} == {"decoder"}


@pytest.mark.parametrize(("pattern", "near"), [("encodr", "encoder"), ("decoder.layer.0", "decoder.layers.0")])
def test_what_is_not_there_cannot_be_frozen(tmp_path, base, pattern, near):
    with pytest.raises(ConfigError, match=f"no part of the model has such a name(.|\n)*{near}"):
        train(lora_config(tmp_path, base, "training.lora_rank=0", f"training.freeze={pattern}"), quiet=True)
    with pytest.raises(ConfigError, match="nothing is left to train"):
        train(lora_config(tmp_path, base, "training.lora_rank=0", "training.freeze=*"), quiet=True)
