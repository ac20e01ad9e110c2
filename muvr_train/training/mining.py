"""Mining between batches: every few epochs the model as it is says what the next batches shall hold."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl

from muvr_train.data.mining import MinedNegatives
from muvr_train.processes import SINGLE, Group
from muvr_train.search.mining import Mined, count_new
from muvr_train.training.callbacks import log_everywhere

log = logging.getLogger(__name__)


class MineNegatives(pl.Callback):
    """Mines after every `period` batches, and keeps the lists in the checkpoints.

    It must come before `EvaluateAndSave`, so that a checkpoint of the same batch holds the new lists.

    Args:
        progress: the count of finished batches.
        negatives: gets the lists.
        mine: scores the training queries; called in every process.
        period: batches between two minings.
        total_steps: batches in the run; after the last one nothing is mined.
        group: the processes; the lists of the first one count.
    """

    def __init__(
        self,
        progress: Any,
        negatives: MinedNegatives,
        mine: Callable[[], Mined],
        period: int,
        total_steps: int,
        group: Group = SINGLE,
    ) -> None:
        self.progress, self.negatives, self.mine, self.group = progress, negatives, mine, group
        self.period, self.total_steps = period, total_steps

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Mine where it is time."""
        step = self.progress.finished
        if step % self.period or step >= self.total_steps:
            return
        started = time.monotonic()
        mined: Mined = self.group.broadcast(self.mine())
        count, new = sum(map(len, mined.lists.values())), count_new(mined.lists, dict(self.negatives.lists))
        self.negatives.replace(mined.lists)
        values = {"train/mining/negatives": float(count), "train/mining/new": float(new)}
        if not math.isnan(mined.mean_score):
            values["train/mining/mean_score"] = mined.mean_score
        log_everywhere(trainer, values, step)
        if self.group.is_first:
            left = f"; {mined.without} queries have none" if mined.without else ""
            log.info(
                "step %d: mined %d hard negatives of %d queries, %d of them new, mean score %.4f, in %.1f s%s",
                *(step, count, len(mined.lists), new, mined.mean_score, time.monotonic() - started, left),
            )

    def state_dict(self) -> dict[str, Any]:
        """The lists in force, as plain data."""
        return {"lists": {query: list(videos) for query, videos in self.negatives.lists.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Put them in force again."""
        self.negatives.replace(state_dict["lists"])
