"""The count of finished batches: the only state from which data, chance and schedules of a run follow.

A run is one Lightning epoch of `total_steps` batches; what users call an epoch is `steps_per_epoch` batches of it. So
every checkpoint is a mid-epoch one and Lightning has a single way to resume, which the tests kill and continue.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from muvr_train.training.lost import end_on_sigterm


class Progress(pl.Callback):
    """Counts finished batches and seeds torch, numpy and random from (seed, batch) before each one."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.finished = seed, 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take SIGTERM back from Lightning."""
        end_on_sigterm()

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Make dropout and the like a function of (seed, batch)."""
        word = int(np.random.SeedSequence([self.seed, self.finished]).generate_state(1)[0])
        random.seed(word)
        np.random.seed(word)
        torch.manual_seed(word)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Count."""
        self.finished += 1

    def state_dict(self) -> dict[str, Any]:
        """The count, for the checkpoint."""
        return {"finished": self.finished}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the count back."""
        self.finished = int(state_dict["finished"])
