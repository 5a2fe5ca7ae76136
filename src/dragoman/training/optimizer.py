"""Adam as in the paper (section 5.3), and its moments as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam, or AdamW with weight decay on matrices only; the learning rate is set before each update.

    The paper's: β₁ 0.9, β₂ 0.98, ε 1e-9.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    fused = parameters[0].device.type in ("cpu", "cuda", "mps")
    return kind(groups, lr=0.0, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_eps, fused=fused)


def optimizer_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Moments and step counts as `exp_avg.NAME`, `exp_avg_sq.NAME`, `step.NAME`."""
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put moments back exactly as they were."""
    for name, parameter in model.named_parameters():
        found = {
            key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}.{name}" in tensors
        }
        if found:
            # The step count stays where the optimiser keeps it: on the CPU, unless it is fused on another device.
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in found.items()}
