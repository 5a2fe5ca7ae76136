"""MarianMT of Hugging Face transformers as one of those measured: the same weights, its own generation, a hand loop."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import GenerationConfig, MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
Batches = list[list[list[int]]]
# Where MarianMT keeps what our layers call by another name; attention is cut apart besides.
NAMES = (
    ("self_attention_residual.norm", "self_attn_layer_norm"), ("feed_forward_residual.norm", "final_layer_norm"),
    ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
    ("feed_forward.inner", "fc1"), ("feed_forward.outer", "fc2"),
    ("self_attention.output", "self_attn.out_proj"), ("cross_attention.output", "encoder_attn.out_proj"),
    ("self_attention.projection", "self_attn.{}_proj"), ("cross_attention.projection", "encoder_attn.{}_proj"),
)  # fmt: skip


class Peer:
    def __init__(self, options: dict[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        self.autocast = bool(options.get("autocast"))
        self.run: Any

    def versions(self) -> dict[str, str]:
        return {"transformers": version("transformers"), "torch": version("torch")}

    def load(self, directory: str) -> str:
        self.model = make_model(Path(directory)).eval()
        return f"attention {self.model.config._attn_implementation}"

    def prepare_decoding(self, batches: Batches, steps: int, beam_size: int) -> None:
        options = GenerationConfig(
            num_beams=beam_size, max_new_tokens=steps, do_sample=False, pad_token_id=PAD, eos_token_id=EOS,
            decoder_start_token_id=BOS, bos_token_id=BOS,
        )  # fmt: skip

        @torch.inference_mode()
        def run() -> list[Any]:
            found = []
            for batch in batches:
                source = _padded([[*ids, EOS] for ids in batch])
                found.append(self.model.generate(source, options, attention_mask=(source != PAD).long()))
            return found

        self._found, self.run = run, lambda: run() and None

    @torch.inference_mode()
    def scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of an output, without its end."""
        source = _padded([[*ids, EOS] for ids in sources])
        target = _padded([[BOS, *ids] for ids in targets])
        logits = self.model(source, attention_mask=(source != PAD).long(), decoder_input_ids=target[:, :-1]).logits
        found = logits.log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
        return [row[: len(ids)].tolist() for row, ids in zip(found, targets, strict=True)]

    def outputs(self, batches: Batches, steps: int, beam_size: int) -> list[list[int]]:
        self.prepare_decoding(batches, steps, beam_size)
        return [row[1 : steps + 1] for batch in self._found() for row in batch.tolist()]

    def prepare_training(self, directory: str, batches: list[Batches], dropout: float) -> float:
        """Each run makes an update on each batch; returns the loss per token before, without dropout."""
        model, autocast = make_model(Path(directory), dropout), self.autocast
        made = [_training_batch(*batch) for batch in batches]
        loss_of = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

        def loss(batch: dict[str, Tensor]) -> Tensor:
            labels = batch["labels"]
            inputs = {name: value for name, value in batch.items() if name != "labels"}
            return loss_of(model(**inputs, use_cache=False).logits.flatten(0, 1), labels.flatten())

        with torch.no_grad():
            model.eval()
            first = float(loss(made[0]))
        optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

        def run() -> None:
            for batch in made:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                    value = loss(batch)
                value.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

        self.run = run
        return first


def make_config(sizes: dict[str, Any], dropout: float = 0.0) -> MarianConfig:
    """Of our sizes; its defaults elsewhere."""
    return MarianConfig(
        vocab_size=sizes["target_vocab"], d_model=sizes["d_model"], activation_function=sizes["activation"],
        encoder_layers=sizes["num_encoder_layers"], decoder_layers=sizes["num_decoder_layers"],
        encoder_attention_heads=sizes["num_heads"], decoder_attention_heads=sizes["num_heads"],
        encoder_ffn_dim=sizes["d_ff"], decoder_ffn_dim=sizes["d_ff"], scale_embedding=True, dropout=dropout,
        max_position_embeddings=4096, pad_token_id=PAD, eos_token_id=EOS, bos_token_id=BOS, decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )  # fmt: skip


def make_model(directory: Path, dropout: float = 0.0) -> Any:
    """A MarianMT with the weights of a post-norm model of ours whose embeddings are one."""
    sizes = json.loads((directory / "config.json").read_text(encoding="utf-8"))["model"]
    if (sizes["norm"], sizes["positions"], sizes["tie_embeddings"]) != ("post", "concatenated", "all"):
        raise ValueError("MarianMT has post-norm layers, concatenated positions and one embedding")
    model = MarianMTModel(make_config(sizes, dropout))
    ours = load_file(directory / "model.safetensors")
    state = {name: value for old, tensor in ours.items() for name, value in _renamed(old, tensor).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    tied = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    tables = {name for name in missing if name.endswith("embed_positions.weight")}
    if unexpected or set(missing) - tied - tables - {"final_logits_bias", "model.shared.weight"}:
        raise ValueError(f"weights left over {unexpected} or missing {missing}")
    model.tie_weights()
    return model


def _renamed(name: str, tensor: Tensor) -> dict[str, Tensor]:
    if name == "generator.bias":
        return {"final_logits_bias": tensor[None]}
    if "layers" not in name:  # one table for all three
        return {"model.shared.weight": tensor}
    for ours, theirs in NAMES:
        name = name.replace(ours, theirs)
    if "{}" not in name:
        return {f"model.{name}": tensor}
    parts = tensor.chunk(3)
    return {f"model.{name.format(part)}": value for part, value in zip("qkv", parts, strict=True)}


def _training_batch(sources: list[list[int]], targets: list[list[int]]) -> dict[str, Tensor]:
    source, target = _padded([[*ids, EOS] for ids in sources]), _padded([[BOS, *ids, EOS] for ids in targets])
    inputs = {"input_ids": source, "attention_mask": (source != PAD).long(), "decoder_input_ids": target[:, :-1]}
    return {**inputs, "labels": target[:, 1:]}


def _padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
