"""The teacher of a distillation, from its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from omegaconf import DictConfig

from muvr_train.benchmarks.leakage import HELD_OUT
from muvr_train.errors import ConfigError, shorten
from muvr_train.preflight.teacher import teacher_file
from muvr_train.runner.data import Data, query_names
from muvr_train.runner.evaluate_run import check_encoder, trained_queries
from muvr_train.runner.models import limited, load_checkpoint
from muvr_train.runner.refusals import build_loss
from muvr_train.training.teacher import Teacher, read_from_teacher


@dataclass(frozen=True)
class Taught:
    """A teacher, what results say about it (its run and its hash), and the names of the queries it was trained on."""

    teacher: Teacher
    facts: dict[str, str]
    trained_queries: frozenset[str]


def open_teacher(cfg: DictConfig, data: Data, device: str) -> Taught | None:
    """Build the teacher that the config names, on a device; None where it names none. No random number is used up.

    Raises:
        ConfigError: it was trained on queries that this run holds out: their labels would leak through its scores.
        DataError: no checkpoint, or of features of another size.
    """
    if cfg.teacher is None:
        return None
    path = teacher_file(cfg.teacher)
    with torch.random.fork_rng(devices=[]):
        loaded, needs = load_checkpoint(path, data.store, key="teacher"), build_loss(cfg).needs
    check_encoder("teacher", loaded.recipe, data)
    known = trained_queries(cfg, loaded.recipe, data)
    for split in HELD_OUT:
        held_out = query_names(data.part(split))
        if seen := sorted(held_out & known):
            raise ConfigError(
                f"teacher={cfg.teacher} was trained on {len(seen)} of the {len(held_out)} queries of the {split} "
                f"split, whose labels would leak through its scores: {shorten(seen, 3)}. Train both on the same splits "
                "(data.fractions, benchmark.split_source, benchmark.folds, benchmark.fold)"
            )
    teacher = Teacher(limited(loaded.model, cfg).to(device), read_from_teacher(needs))
    facts = {"run": path.resolve().parent.name, "sha256": loaded.digest}
    return Taught(teacher, facts, known)
