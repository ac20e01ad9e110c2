"""Exponential moving average of the weights, which is evaluated and kept; training goes on with its own weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

TRAINED = "training_weights"
"""Key of a checkpoint under which the weights lie that training goes on with; its `state_dict` holds the average."""


class WeightAverage(pl.Callback):
    """Moves an average towards the weights after each optimiser step: average += (1 - d) (weights - average).

    d = min(decay, (1 + n) / (10 + n)) with n the steps before, so that the first weights are soon forgotten. Buffers
    are copied as they are. It must come before the callback that evaluates. Every process keeps the same average.

    Args:
        decay: above 0, below 1; the average looks back over about 1 / (1 - decay) steps.
    """

    def __init__(self, decay: float) -> None:
        self.decay, self.updates, self.steps = decay, 0, 0
        self.average: dict[str, Tensor] = {}
        self.module: pl.LightningModule | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with the weights as they are, or go on with the checkpoint's average."""
        self.module, self.steps = pl_module, trainer.global_step
        state = pl_module.state_dict()
        self.average = {
            name: self.average.get(name, value).to(value.device, copy=True) for name, value in state.items()
        }

    @torch.no_grad()
    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Move the average, where the batch ended an optimiser step."""
        if trainer.global_step == self.steps:
            return
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        weights = {name for name, _ in pl_module.named_parameters()}
        for name, value in pl_module.state_dict().items():
            if name in weights:
                self.average[name].lerp_(value, 1 - decay)
            else:
                self.average[name].copy_(value)
        self.steps, self.updates = trainer.global_step, self.updates + 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the model, and its own weights back afterwards."""
        if self.module is None:
            raise RuntimeError("the average is there only while a model is trained")
        own = {name: value.clone() for name, value in self.module.state_dict().items()}
        self.module.load_state_dict(self.average)
        try:
            yield
        finally:
            self.module.load_state_dict(own)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Let the average be the checkpoint's weights, and put those of training beside them."""
        checkpoint[TRAINED], checkpoint["state_dict"] = checkpoint["state_dict"], self.average

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take both back."""
        self.average = checkpoint["state_dict"]
        pl_module.load_state_dict(checkpoint[TRAINED])

    def state_dict(self) -> dict[str, Any]:
        """The count of updates, for the checkpoint."""
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the count back."""
        self.updates = int(state_dict["updates"])
