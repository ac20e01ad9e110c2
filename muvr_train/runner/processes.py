"""The processes of a run, as its config asks for them."""

from __future__ import annotations

import logging
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from omegaconf import DictConfig

from muvr_train.errors import ConfigError
from muvr_train.training.launch import Here, start_processes
from muvr_train.training.lost import end_on_sigterm, noticing


@contextmanager
def started(cfg: DictConfig, device: str) -> Iterator[Here]:
    """Start the run's processes (see `start_processes`); the loss of one of them ends the others with a message."""
    quiet_lightning()
    settings, folder = cfg.trainer, f"checkpoints/{cfg.run}" if "run" in cfg else cfg.out
    here = start_processes(device, settings.devices, settings.num_nodes, settings.timeout)
    go_on = f" Go on with resume_from={folder}." if "run" in cfg else ""
    advice = f"The log files in {folder} say more.{go_on}"
    end_on_sigterm()
    try:
        with noticing(here.group, settings.timeout, advice, here.children):
            yield here
    except (KeyboardInterrupt, SystemExit) as error:  # Lightning answers Ctrl-C with the latter
        told = not go_on and isinstance(error, SystemExit) and error.code == 130  # reranking said how to go on
        if here.group.is_first and not told:
            sys.stderr.write(f"interrupted.{_how_to_go_on(Path(folder)) if go_on else ''}\n")
        sys.exit(error.code if isinstance(error, SystemExit) and error.code == 128 + signal.SIGTERM else 130)


def _how_to_go_on(folder: Path) -> str:
    """Say from what an interrupted run goes on; the runs of several seeds or folds lie in folders of their own."""
    if any(any(folder.glob(pattern)) for pattern in ("last.ckpt", "*/last.ckpt")):
        return f" Go on with resume_from={folder}."
    return f" No checkpoint was saved yet: resume_from={folder} starts again at step 0."


def quiet_lightning() -> None:
    """Keep Lightning's notices about hardware and its own products out of the log; warnings stay."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=DeprecationWarning)
    warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*not resumable.*")


def pick_device(cfg: DictConfig) -> str:
    """Give "cuda" or "cpu", and refuse what the machine cannot do."""
    wanted = cfg.trainer.accelerator
    if wanted == "gpu" and not torch.cuda.is_available():
        raise ConfigError("trainer.accelerator=gpu, but torch finds no CUDA device; use trainer=cpu (or ddp_cpu)")
    device = "cuda" if wanted in ("gpu", "auto") and torch.cuda.is_available() else "cpu"
    if cfg.residency == "gpu" and device == "cpu":
        raise ConfigError("residency=gpu keeps the features on a CUDA device, and there is none; use residency=ram")
    if str(cfg.trainer.get("precision", 32)) == "16-mixed" and device == "cpu":
        raise ConfigError("trainer.precision=16-mixed needs a GPU; on a CPU use 32 or bf16-mixed")
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32: scores must not depend on blocks
    return device
