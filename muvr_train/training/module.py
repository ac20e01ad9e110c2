"""The LightningModule: one step of scores and losses, the optimiser and its schedule."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from muvr_train.data.batch import Batch
from muvr_train.errors import DataError, ProcessError, shorten
from muvr_train.losses.composite import CompositeLoss
from muvr_train.models.retriever import Retriever
from muvr_train.processes import SINGLE, Group
from muvr_train.training.continuing import (
    place_in_schedule,
    refuse_other_run,
    refuse_other_weights,
    refuse_unnamed,
    take_settings,
)
from muvr_train.training.gather import Anchor, gather_rows, gather_tokens
from muvr_train.training.offsets import leave_unseen
from muvr_train.training.rates import freeze, parameter_groups
from muvr_train.training.teacher import Teacher

log = logging.getLogger(__name__)


class RetrievalModule(pl.LightningModule):
    """Trains a retriever on `Batch`es.

    Args:
        retriever: the model.
        loss: on its scores; its own parameters are optimised and saved too.
        total_steps: optimiser steps of the whole run, the length of the cosine.
        lr: the highest learning rate, reached after the warm-up.
        weight_decay: for weight matrices; biases, norms and scalars get none.
        betas: of AdamW.
        warmup_steps: optimiser steps of linear warm-up (at most a tenth of the run).
        min_lr_ratio: where the cosine ends, relative to `lr`.
        lr_ratios: learning rates of some parameters relative to `lr`, by a piece of their name; 0 freezes them.
        recipe: plain data stored in the checkpoint, from which the model can be built again.
        group: the processes that share each batch; any number of them gives the same gradient.
        teacher: scores each batch too, for losses that read its scores.
    """

    def __init__(
        self,
        retriever: Retriever,
        loss: CompositeLoss,
        total_steps: int,
        lr: float = 5e-5,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        warmup_steps: int = 1000,
        min_lr_ratio: float = 0.1,
        lr_ratios: Mapping[str, float] | None = None,
        recipe: dict[str, Any] | None = None,
        group: Group = SINGLE,
        teacher: Teacher | None = None,
    ) -> None:
        super().__init__()
        self.retriever, self.loss, self.group, self.teacher = retriever, loss, group, teacher
        self.total_steps, self.lr, self.weight_decay, self.betas = total_steps, lr, weight_decay, (betas[0], betas[1])
        self.warmup_steps, self.min_lr_ratio = min(warmup_steps, total_steps // 10), min_lr_ratio
        self.lr_ratios = dict(lr_ratios or {})
        self.recipe = recipe or {}
        self.last_logged: dict[str, float] = {}
        self.anchor = Anchor() if group.size > 1 else None
        for piece, what in freeze(self, self.lr_ratios).items():
            if group.is_first:
                log.info("optimizer.lr_ratios: %r freezes %s", piece, what)
        leave_unseen(retriever.head, loss, group)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Move a batch (Lightning does not know our type)."""
        del dataloader_idx
        return batch.to(device, non_blocking=True)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Score all queries against all database videos of the batch and give the loss."""
        del batch_idx
        scores, extras = self.score(batch)
        if batch.tag_relevance is not None:
            extras = {**extras, "relevance/tags": batch.tag_relevance}
        result = self.loss(scores, batch.relevance, extras)
        if not torch.isfinite(result.total):
            if not self.group.is_first:
                raise ProcessError("process 0 says what is wrong with the loss", shown=False)
            raise DataError(
                f"the loss is {result.total.item()} (parts {self._plain(result.values)}): stopped before the update, "
                f"the last checkpoint is good. {self._origin(scores, result.values)}. Queries of the batch: "
                f"{shorten(list(batch.query_ids))}; database videos: {shorten(list(batch.database_ids))}. Look at "
                "their features, or lower optimizer.lr"
            )
        judged = batch.relevance == 0
        self.last_logged = {
            "train/loss": float(result.total.detach()),
            **{f"train/loss/{name}": value for name, value in self._plain(result.values).items()},
            **{f"train/skipped/{name}": float(count) for name, count in result.skipped.items()},
            "train/negatives_per_query": float(judged.sum(dim=1).float().mean()),
        }
        total: Tensor = result.total
        return total

    def score(self, batch: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Scores and extras of the whole batch, whatever this process's share of it is; see `training_scores`."""
        database = gather_tokens(batch.database, self.group)
        fine = None if batch.fine is None else gather_tokens(batch.fine, self.group)
        rows: dict[str, Tensor] = {}
        if len(batch.queries):
            queries, encoded = self.retriever.encode_batch(batch.queries, database, fine)
            scores, extras = self.retriever.training_scores(queries, encoded, self.loss.needs)
            rows = {f"scores.{name}": value for name, value in scores.items()}
            if self.teacher is not None:
                extras = {**extras, **self.teacher.score(batch.queries, database, fine)}
            rows |= {f"extras.{name}": value for name, value in extras.items()}
        if self.anchor is not None:
            rows = gather_rows(rows, len(batch.query_ids), self.group, self.anchor.value)
        kinds: dict[str, dict[str, Tensor]] = {"scores": {}, "extras": {}}
        for key, value in rows.items():
            kind, _, name = key.partition(".")
            kinds[kind][name] = value
        return kinds["scores"], kinds["extras"]

    def _origin(self, scores: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> str:
        """Say where numbers stop being finite: in the scores of a part, in fused ones, or in a loss."""
        network, head = type(self.retriever.network).__name__, type(self.retriever.head).__name__
        for name in (*(name for name in scores if name != "fused"), "fused"):
            if name in scores and bool(torch.isnan(scores[name]).any() | torch.isposinf(scores[name]).any()):
                made = f"fusion head {head}" if name == "fused" else f"similarity network {network}, fusion head {head}"
                return f"It begins in the scores {name!r} ({made})"
        broken = [name for name, value in values.items() if not torch.isfinite(value)]
        classes = [f"loss.losses.{name} ({type(self.loss.losses[name]).__name__})" for name in broken]
        return f"All scores are sound, so it begins in {' and '.join(classes) or 'loss.weights'}"

    @staticmethod
    def _plain(parts: dict[str, Tensor]) -> dict[str, float]:
        return {name: float(value.detach()) for name, value in parts.items()}

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with a linear warm-up and a cosine, both counted in optimiser steps."""
        optimizer = self._optimizer()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._lr_factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _optimizer(self) -> torch.optim.Optimizer:
        groups = parameter_groups(self, self.lr, self.weight_decay, self.lr_ratios, without=self.anchor)
        for group in groups:
            group["initial_lr"] = group["lr"]
        return torch.optim.AdamW(groups, lr=self.lr, betas=self.betas)

    def _lr_factor(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        done = min(1.0, (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps))
        return self.min_lr_ratio + (1 - self.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done))

    def refuse_other(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint from which this run cannot go on.

        Raises:
            ConfigError: of a run with another teacher, or with another weight averaging.
            DataError: its weights do not fit, or it is of an earlier version.
        """
        refuse_other_run(checkpoint["muvr_train"], self.recipe)
        refuse_other_weights(checkpoint["state_dict"], self.state_dict())
        refuse_unnamed(checkpoint["optimizer_states"][0])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on under the settings of this run, also from a finished one, which Lightning would take for done.

        The learning rates, groups, weight decay and betas of this run hold from the next step on, at the place in its
        own schedule; the moments of the optimiser are the checkpoint's.

        Raises:
            ConfigError, DataError: see `refuse_other`.
        """
        self.refuse_other(checkpoint)
        (optimizer,), (schedule,) = checkpoint["optimizer_states"], checkpoint["lr_schedulers"]
        if self._trainer is not None:
            schedule["last_epoch"] = place_in_schedule(checkpoint, self._trainer.accumulate_grad_batches)
        take_settings(optimizer, schedule, self._optimizer().param_groups, self._lr_factor)
        if schedule["last_epoch"] < self.total_steps:
            checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"] = False

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the recipe, so that the checkpoint alone rebuilds the model."""
        checkpoint["muvr_train"] = self.recipe
