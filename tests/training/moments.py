"""A callback by which one process of a run dies or hangs at a chosen step; tests load it by its class path."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytorch_lightning as pl

from muvr_train.errors import DataError

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class At(pl.Callback):
    """At the start of batch `step` (from 0) the process `rank` sends itself a signal or raises ("nothing": neither).

    The other processes are then busy for `busy` seconds.
    """

    def __init__(self, step: int, rank: int, what: str, busy: float = 0.0) -> None:
        self.step, self.rank, self.what, self.busy = step, rank, what, busy

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        if index != self.step or self.what == "nothing":
            return
        if trainer.global_rank != self.rank:
            time.sleep(self.busy)
        elif self.what == "raise":
            raise DataError("only here")
        else:
            os.kill(os.getpid(), SIGNALS[self.what])
