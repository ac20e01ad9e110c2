"""A callback that kills its own process with SIGKILL at a chosen moment; tests load it by its class path."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytorch_lightning as pl


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillAt(pl.Callback):
    """Kills at `where`: batch_start or batch_end of batch `step` (from 0), in the evaluation or the saving after it."""

    def __init__(self, where: str, step: int) -> None:
        self.where, self.step, self.batch = where, step, -1

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        retriever: Any = pl_module.retriever
        encode = retriever.encode_database

        def dying(*args: Any) -> Any:
            if self.where == "evaluation" and self.batch == self.step and not retriever.training:
                die()
            return encode(*args)

        retriever.encode_database = dying

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        self.batch = index
        if self.where == "batch_start" and index == self.step:
            die()

    def on_train_batch_end(self, *args: Any) -> None:
        if self.where == "batch_end" and self.batch == self.step:
            die()

    def on_save_checkpoint(self, *args: Any) -> None:
        if self.where == "saving" and self.batch == self.step:
            die()
