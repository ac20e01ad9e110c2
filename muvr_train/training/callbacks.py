"""What happens between batches: values logged, evaluation, checkpoints, a progress bar."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from muvr_train.errors import ConfigError
from muvr_train.processes import SINGLE, Group

log = logging.getLogger(__name__)
LINE_EVERY = 30.0  # seconds between progress lines where there is no terminal
SAVE_EVERY = 120.0  # seconds after which a single process saves, whatever the steps


def log_everywhere(trainer: pl.Trainer, values: dict[str, float], step: int) -> None:
    """Write values to every logger under the count of finished batches."""
    for logger in trainer.loggers:
        logger.log_metrics(values, step=step)


class TrainLog(pl.Callback):
    """Logs the step's loss parts and learning rates, of each group as lr/<group>, every `every` batches."""

    def __init__(self, progress: Any, every: int = 10) -> None:
        self.progress, self.every = progress, every

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Log."""
        step = self.progress.finished
        if step % self.every == 0:
            groups = trainer.optimizers[0].param_groups
            rates = {f"lr/{group['part'].strip('.')}": group["lr"] for group in groups if "part" in group}
            values = {**pl_module.last_logged, "train/lr": groups[0]["lr"], **rates}  # type: ignore[dict-item]
            log_everywhere(trainer, values, step)


class EvaluateAndSave(pl.Callback):
    """Evaluates at step 0 and every `every_n_epochs`, keeps the best checkpoint, writes `last` after each evaluation.

    Args:
        progress: the count of finished batches.
        evaluate: gives the flat metrics of the model as it is.
        baselines: gives the flat metrics of the untrained rows, logged once at step 0.
        folder: of the run; `best.ckpt` and `last.ckpt` are written there, each at once (temp file + rename).
        monitor: key of the metric that decides, higher is better.
        steps_per_epoch: batches in an epoch.
        every_n_epochs: epochs between evaluations; the end of training is always evaluated.
        total_steps: batches in the run.
        checkpoint_every_n_steps: batches between `last` checkpoints (rounded up to whole accumulations). A single
            process also saves when two minutes have gone; several have no common clock.
        patience: stop after so many evaluations without a better value; None trains to the end.
        group: the processes that train together: all evaluate and decide alike, the first one keeps the files.
    """

    def __init__(
        self,
        progress: Any,
        evaluate: Callable[[], dict[str, float]],
        baselines: Callable[[], dict[str, float]],
        folder: Path,
        monitor: str,
        steps_per_epoch: int,
        every_n_epochs: int,
        total_steps: int,
        checkpoint_every_n_steps: int,
        patience: int | None = None,
        group: Group = SINGLE,
    ) -> None:
        self.progress, self.group = progress, group
        self.evaluate, self.baselines = evaluate, baselines
        self.folder, self.monitor, self.patience = folder, monitor, patience
        self.period, self.total_steps = steps_per_epoch * every_n_epochs, total_steps
        self.save_period = checkpoint_every_n_steps
        self.best: float | None = None
        self.best_step, self.since_best = -1, 0
        self.saved_at = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Evaluate before the first step (a resumed run has done so)."""
        if self.progress.finished == 0:
            log_everywhere(trainer, self.baselines(), 0)
            self._evaluate(trainer)
        elif self.patience is not None and self.since_best >= self.patience:
            trainer.should_stop = True
        self.saved_at = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Evaluate and save where it is time; never between the batches of one accumulated step."""
        step = self.progress.finished
        whole = step % trainer.accumulate_grad_batches == 0
        if step % self.period == 0 or step == self.total_steps:
            self._evaluate(trainer)
        elif not (whole and (step % self.save_period < trainer.accumulate_grad_batches or self._is_late())):
            return
        if whole or step == self.total_steps:
            self._save(trainer, "last.ckpt")
            self.saved_at = time.monotonic()

    def _is_late(self) -> bool:
        return self.group.size == 1 and time.monotonic() - self.saved_at > SAVE_EVERY

    def _evaluate(self, trainer: pl.Trainer) -> None:
        values, step = self.group.broadcast(self.evaluate()), self.progress.finished
        if self.monitor not in values:
            names = ", ".join(sorted(values))
            raise ConfigError(f"monitor={self.monitor} is not a metric of this evaluation. There are: {names}")
        log_everywhere(trainer, values, step)
        value = values[self.monitor]
        better = self.best is None or value > self.best
        log.info("step %d: %s = %.4f%s", step, self.monitor, value, " (best so far)" if better else "")
        if better:
            self.best, self.best_step, self.since_best = value, step, 0
            self._save(trainer, "best.ckpt")
        else:
            self.since_best += 1
            if self.patience is not None and self.since_best >= self.patience:
                log.info("no better value in %d evaluations: stopping", self.since_best)
                trainer.should_stop = True

    def _save(self, trainer: pl.Trainer, name: str) -> None:
        temporary = self.folder / f".{name}.tmp"
        trainer.save_checkpoint(temporary)
        if self.group.is_first:
            os.replace(temporary, self.folder / name)
        self.group.barrier()

    def state_dict(self) -> dict[str, Any]:
        """What the best evaluation was."""
        return {"best": self.best, "best_step": self.best_step, "since_best": self.since_best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it back."""
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.since_best = state_dict["since_best"]


class ProgressBar(pl.Callback):
    """A bar on stderr with the step, the loss, the rate and the time left."""

    def __init__(self, progress: Any, total_steps: int) -> None:
        self.progress, self.total_steps = progress, total_steps
        self.bar: Progress | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the bar."""
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("training", total=self.total_steps, completed=self.progress.finished, loss="")
        self.bar.start()
        self.started = self.spoke = time.monotonic()
        self.started_at = self.progress.finished

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Advance; without a terminal, log a line now and then."""
        if self.bar is None:
            return
        loss = f"loss {pl_module.last_logged['train/loss']:.3f}"  # type: ignore[index]
        done = self.progress.finished
        self.bar.update(self.task, completed=done, loss=loss)
        now = time.monotonic()
        if not self.bar.console.is_terminal and now - self.spoke >= LINE_EVERY:
            rate = (done - self.started_at) / (now - self.started)
            left = (self.total_steps - done) / rate / 60
            log.info("step %d of %d, %s, %.1f steps/s, %.1f min left", done, self.total_steps, loss, rate, left)
            self.spoke = now

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Remove the bar before the message is printed."""
        self.on_train_end(trainer, pl_module)
