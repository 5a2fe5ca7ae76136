"""What the loop does besides descending."""

from __future__ import annotations

import hashlib
import itertools
import math

import pytest
import torch

from dragoman.errors import ConfigError, DivergenceError, SaveError
from dragoman.models import load_pretrained
from dragoman.runs.checkpoint import list_checkpoints, load_checkpoint
from dragoman.training import average, judging, train
from dragoman.training import trainer as trainer_module
from dragoman.training.seeding import seed_of
from dragoman.training.trainer import Trainer
from small_runs import events, small_config, write_corpus

pytestmark = pytest.mark.arithmetic


def weights_hash(trainer: Trainer) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(trainer.model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    for state in trainer.optimizer.state.values():
        for tensor in state.values():
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def poison(monkeypatch, steps) -> list[tuple[int, str, str]]:
    """Make the gradients of some steps NaN; the hashes of weights and moments before and after each update."""
    seen = []
    update, clip = Trainer.learn, trainer_module.clip_gradients

    def spied(self, batches):
        before = weights_hash(self)
        poisoned = self.progress.step + 1 in steps

        def clipped(parameters, *rest):
            parameters = list(parameters)
            if poisoned:
                parameters[0].grad[0, 0] = math.nan
            return clip(parameters, *rest)

        monkeypatch.setattr(trainer_module, "clip_gradients", clipped)
        update(self, batches)
        seen.append((self.progress.step, before, weights_hash(self)))

    monkeypatch.setattr(Trainer, "learn", spied)
    return seen


def test_an_update_that_is_not_finite_leaves_weights_and_moments_alone(tmp_path, monkeypatch):
    seen = poison(monkeypatch, {3, 4, 6})
    run = train(small_config(tmp_path, "run", "max_steps=8", "ema_decay=0.9"), quiet=True)
    assert [step for step, before, after in seen if before == after] == [3, 4, 6]
    assert run.progress.skipped == 3
    assert [row["step"] for row in events(run.directory, "skipped")] == [3, 4, 6]


def test_ten_such_updates_in_a_row_stop_the_run_and_name_the_pairs(tmp_path, monkeypatch):
    poison(monkeypatch, range(5, 100))
    with pytest.raises(DivergenceError) as caught:
        train(small_config(tmp_path, "run"), quiet=True)
    assert caught.value.exit_code == 3
    assert "update 14" in (tmp_path / "run/diverged.txt").read_text()


def test_training_stops_when_validations_get_no_better(tmp_path):
    settings = ("learning_rate=1e-30", "validation.every=2", "patience=3")  # so small that losses are equal
    run = train(small_config(tmp_path, "run", *settings, "metric=exact"), quiet=True)
    assert run.progress.step == 2 + 3 * 2
    assert run.progress.finished


def test_the_best_weights_are_kept_not_the_last(tmp_path, monkeypatch):
    values = iter([0.5, 0.9, 0.2, 0.1])
    validate = judging.validate

    def worse_and_worse(*arguments):
        result = validate(*arguments)
        result.scores["exact"] = next(values, 0.0)
        return result

    monkeypatch.setattr(judging, "validate", worse_and_worse)
    run = train(small_config(tmp_path, "run", "validation.every=5", "max_steps=20", "metric=exact"), quiet=True)
    assert run.progress.best_step == 10
    kept = load_pretrained(run.directory).model.state_dict()
    best = load_checkpoint(run.directory / "checkpoints/step-00000010").tensors["model"]
    assert all(torch.equal(kept[name], best[name]) for name in best)
    assert [path.name for path in list_checkpoints(run.directory / "checkpoints")] == [
        "step-00000010", "step-00000015", "step-00000020",
    ]  # fmt: skip


def test_a_moving_average_is_what_is_judged_and_kept(tmp_path):
    run = train(small_config(tmp_path, "run", "ema_decay=0.9", "max_steps=20"), quiet=True)
    kept = load_pretrained(run.directory).model.state_dict()
    last = load_checkpoint(run.directory / "checkpoints/step-00000020").tensors
    name = "encoder.layers.0.feed_forward.inner.weight"
    assert torch.equal(kept[name], last["average"][f"average.{name}"])
    assert not torch.equal(kept[name], last["model"][name])


def test_averaging_at_the_end_and_afterwards_is_the_mean_of_checkpoints(tmp_path):
    settings = ("validation.every=5", "max_steps=20", "keep_last=3")
    run = train(small_config(tmp_path, "run", *settings), quiet=True)
    paths = list_checkpoints(run.directory / "checkpoints")[-3:]
    parts = [load_checkpoint(path).tensors["model"] for path in paths]
    averaged = load_pretrained(average(run.directory, 3, tmp_path / "mean").directory).model.state_dict()
    for name, tensor in averaged.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(0)
        assert (tensor - mean).abs().max() <= 1e-7
    ended = train(small_config(tmp_path, "ended", *settings, "average_last=3"), quiet=True)
    found = [row for row in events(ended.directory, "validation") if row["step"] == 20]
    assert len(found) == 2, "the last weights and the average are both judged"


def test_fine_tuning_starts_from_given_weights_and_tokenizers(tmp_path):
    first = train(small_config(tmp_path, "first"), quiet=True)
    second = train(
        small_config(tmp_path, "second", f"init_from={first.directory}", "max_steps=1", "learning_rate=1e-9"),
        quiet=True,
    )
    before, after = (load_pretrained(run.directory).model.state_dict() for run in (first, second))
    assert all((before[name] - after[name]).abs().max() <= 1e-6 for name in before)
    files = [(run.directory / "vocabulary.source.json").read_bytes() for run in (first, second)]
    assert files[0] == files[1]


def test_a_save_that_fails_is_told_and_tried_again_until_the_third(tmp_path, monkeypatch):
    save, calls = trainer_module.save_checkpoint, itertools.count(1)

    def failing(*arguments):
        if next(calls) in (1, 2, 4, 5, 6):
            raise SaveError("no space left")
        return save(*arguments)

    monkeypatch.setattr(trainer_module, "save_checkpoint", failing)
    with pytest.raises(SaveError):
        train(small_config(tmp_path, "run", "validation.every=5", "max_steps=40"), quiet=True)
    assert [path.name for path in list_checkpoints(tmp_path / "run/checkpoints")] == ["step-00000015"]


def test_a_time_budget_ends_training(tmp_path):
    run = train(small_config(tmp_path, "run", "max_minutes=0.0001"), quiet=True)
    assert run.progress.step == 1
    assert run.progress.finished


def test_bfloat16_products_train_float32_weights(tmp_path):
    run = train(small_config(tmp_path, "run", "precision=bfloat16", "max_steps=3"), quiet=True)
    dtypes = {tensor.dtype for tensor in load_pretrained(run.directory).model.state_dict().values()}
    assert dtypes == {torch.float32}
    assert all(math.isfinite(row["loss"]) for row in events(run.directory, "train"))


def test_a_compiled_model_trains_the_same_weights(tmp_path, monkeypatch):
    calls = []

    def compiled(function, **options):
        calls.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    plain = train(small_config(tmp_path, "plain", "max_steps=3"), quiet=True)
    assert not calls
    fast = train(small_config(tmp_path, "fast", "max_steps=3", "compile=true"), quiet=True)
    assert calls == [{"dynamic": True}]
    assert [row["loss"] for row in events(plain.directory, "train")] == [
        row["loss"] for row in events(fast.directory, "train")
    ]


def test_the_run_directory_holds_what_the_design_says(tmp_path):
    run = train(small_config(tmp_path, "run", "max_steps=20", "tensorboard=true"), quiet=True)
    names = {path.name for path in run.directory.iterdir() if not path.name.startswith(".")}
    assert names == {
        "config.json", "config.toml", "model.safetensors", "vocabulary.source.json", "vocabulary.target.json",
        "README.md", "metrics.jsonl", "train.log", "checkpoints", "hypotheses", "data", "tensorboard",
    }  # fmt: skip
    card = (run.directory / "README.md").read_text(encoding="utf-8")
    for part in ("SHA-256", "version:2", "seed 1", "20 updates", "torch 2"):
        assert part in card
    assert list((run.directory / "tensorboard").iterdir())
    assert run.translator().translate(["ba ce"])[0].tokens is not None


def test_pairs_train_only_an_encoder_decoder(tmp_path):
    with pytest.raises(ConfigError, match="encoder-decoder"):
        train(small_config(tmp_path, "run", "family=causal"), quiet=True)


def test_seeds_of_different_counters_differ():
    seeds = {seed_of(*counters) for counters in itertools.product(range(3), repeat=4)}
    assert len(seeds) == 81
    assert seed_of(1, 2, 3) == seed_of(1, 2, 3) < 2**63


def test_a_model_learns_to_turn_sequences_around(tmp_path):
    write_corpus(tmp_path, pairs=1500)
    settings = ("max_steps=300", "validation.every=300", "metric=exact", "dropout=0.0", "learning_rate=5e-3")
    more = ("label_smoothing=0.0", "batch_tokens=512", "positions=interleaved")
    run = train(small_config(tmp_path, "run", *settings, *more), quiet=True)
    assert run.progress.best is not None
    assert run.progress.best >= 50.0, "sequences of up to seven syllables it has not seen, backwards"
