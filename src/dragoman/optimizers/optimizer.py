"""Adam as in the paper (section 5.3) or Muon, and their moments as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig
from dragoman.optimizers.muon import Muon, matrices_of

MOMENTS = ("step", "exp_avg", "exp_avg_sq", "momentum")


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Make Adam, AdamW, or Muon with AdamW for the rest; the learning rate is set before each update.

    Weight decay is of matrices only. The paper's: Adam with β₁ 0.9, β₂ 0.98, ε 1e-9.
    """
    matrices = matrices_of(model) if config.optimizer == "muon" else []
    moved = {id(matrix) for matrix, _ in matrices}
    parameters = [one for one in model.parameters() if one.requires_grad and id(one) not in moved]
    decay = config.weight_decay or 0.0
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer in ("adamw", "muon") else torch.optim.Adam
    fused = next(model.parameters()).device.type in ("cpu", "cuda", "mps")
    adam = kind(groups, lr=0.0, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_eps, fused=fused)
    if not matrices:
        return adam
    factors = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return Muon(
        matrices,
        adam,
        momentum=config.muon_momentum,
        weight_decay=decay,
        rate_factor=config.muon_rate_factor or 1.0,
        factors=factors,
    )


def optimizer_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the moments and step counts, each as `KEY.NAME` with a key of `MOMENTS`."""
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put moments back exactly as they were."""
    for name, parameter in model.named_parameters():
        found = {key: tensors[f"{key}.{name}"] for key in MOMENTS if f"{key}.{name}" in tensors}
        if found:
            # The step count stays where the optimiser keeps it: on the CPU, unless it is fused on another device.
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in found.items()}
