"""Trackers: a CSV that is always written, and Weights & Biases that never prompts."""

from __future__ import annotations

import csv
import logging
import os
import uuid
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pytorch_lightning.loggers import Logger, WandbLogger

log = logging.getLogger(__name__)
INIT_TIMEOUT = 30.0  # seconds that a W&B server may take to answer


class CsvLogger(Logger):
    """Appends one line per value to `metrics.csv`: step (finished batches), name, value.

    A resumed run cuts the file back to its checkpoint's step and goes on, so that the rows are those of an
    uninterrupted run.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.csv"

    @property
    def name(self) -> str:
        """The kind of the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """Runs are told apart by their folders."""
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: the run folder holds config.yaml."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Append the values, in the order of their names."""
        fresh = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if fresh:
                writer.writerow(["step", "name", "value"])
            writer.writerows([step, name, repr(float(value))] for name, value in sorted(metrics.items()))

    def cut_back(self, step: int) -> None:
        """Drop the lines after `step`, and a line that a kill left unfinished."""
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = lines[:1] + [line for line in lines[1:] if line.endswith("\n") and int(line.split(",")[0]) <= step]
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(kept), encoding="utf-8")
        os.replace(temporary, self.path)


def make_wandb(folder: Path, name: str, project: str, config: dict[str, Any]) -> WandbLogger | None:
    """Open a W&B run: offline when there is no API key, never with a prompt; a resumed run continues the same id.

    With a key but without an answer from the server the run is kept offline too, with a warning. WANDB_MODE=disabled
    gives None.
    """
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    wanted = os.environ.get("WANDB_MODE") or ("online" if has_wandb_key() else "offline")
    if wanted == "disabled":
        return None
    id_file = folder / "wandb_id.txt"
    if not id_file.exists():
        id_file.write_text(uuid.uuid4().hex[:8], encoding="utf-8")

    def start(online: bool) -> WandbLogger:
        run = wandb.init(
            project=project,
            name=name,
            id=id_file.read_text(encoding="utf-8").strip(),
            dir=str(folder),
            resume="allow",
            config=config,
            settings=wandb.Settings(
                console="off", mode="online" if online else "offline", silent=True, init_timeout=INIT_TIMEOUT
            ),
        )
        log.info("W&B %s: %s", "online" if online else "offline", run.url if online else Path(run.dir).parent)
        return WandbLogger(experiment=run)

    try:
        return start(wanted == "online")
    except wandb.errors.Error as error:
        log.warning("W&B gives no answer (%s): this run is kept offline, `wandb sync` brings it there later", error)
        return start(False)


def has_wandb_key() -> bool:
    """Whether W&B can log in without asking: an API key in the environment or in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    try:
        return netrc(os.environ.get("NETRC")).authenticators(host or "") is not None
    except (FileNotFoundError, NetrcParseError):
        return False
