"""A callback by which one process of a run dies or hangs at a chosen step; tests load it by its class path."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytorch_lightning as pl

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class At(pl.Callback):
    """Sends itself a signal at the start of batch `step` (from 0) in the process `rank`; "nothing" sends none."""

    def __init__(self, step: int, rank: int, what: str) -> None:
        self.step, self.rank, self.what = step, rank, what

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        if index == self.step and trainer.global_rank == self.rank and self.what != "nothing":
            os.kill(os.getpid(), SIGNALS[self.what])
