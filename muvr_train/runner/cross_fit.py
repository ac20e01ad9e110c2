"""Cross-fitting: every query is scored once, by a model that never saw its search topic, against the full gallery."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol
from muvr_train.judging import judged_rows
from muvr_train.preflight.quoting import split_override
from muvr_train.preflight.resume import FOLD_DONE as DONE
from muvr_train.preflight.resume import trained_steps
from muvr_train.preflight.runs import saved_overrides
from muvr_train.processes import SINGLE, Group
from muvr_train.reports.save_scores import score_block
from muvr_train.reports.write import write_json
from muvr_train.runner.data import Data, open_data, protocol_of
from muvr_train.runner.finish import finish
from muvr_train.runner.folder import claim_folder, keep_settings, loggers_of, run_folder
from muvr_train.runner.models import baseline_models, share_state
from muvr_train.runner.score_run import sha256_of
from muvr_train.runner.subject import Subject, source_of
from muvr_train.search.filter_scores import TagSettings
from muvr_train.search.held import HeldScores, stack_rows
from muvr_train.search.planning import device_of
from muvr_train.search.score_files import ScoreBlock, read_scores, write_scores
from muvr_train.search.score_ids import row_id
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import ScoreSource
from muvr_train.search.texts import served_modes

log = logging.getLogger(__name__)
Matrices = dict[str, dict[str, dict[str, ScoreMatrix]]]
"""Name of the model -> mode -> partition -> scores."""


@dataclass(frozen=True)
class Run:
    """A training that has ended: its folder, the model, what it worked on, and the loggers that are still open."""

    folder: Path
    subject: Subject
    data: Data
    loggers: list[Any]


def cross_fit(cfg: DictConfig, train_model: Callable[[DictConfig], Run], group: Group = SINGLE) -> dict[str, float]:
    """Train a model for each of `benchmark.folds` folds of search topics and evaluate their scores together.

    Each fold is a run of its own in `checkpoints/<run>/fold-<i>`; `resume_from` keeps the folds that are done and goes
    on with the one that was cut short. The untrained rows are cross-fitted as well (their whitening learns).

    Args:
        cfg: with `benchmark.folds` and without `benchmark.fold`.
        train_model: trains one fold.
        group: the processes that train together; the first one does all the rest.

    Returns:
        The flat metrics `all/<benchmark>/<mode>/<partition>/<metric>`; nothing in the other processes.
    """
    folder, folds = run_folder(cfg), int(cfg.benchmark.folds)
    if group.is_first:
        claim_whole(cfg)
    group.barrier()
    length = cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch
    for fold in range(folds):
        own = folder / f"fold-{fold}"
        if group.broadcast(bool(cfg.resume_from) and trained_steps(own / DONE) == length):
            log.info("fold %d of %d is done: %s", fold, folds, own)
            continue
        log.info("fold %d of %d", fold, folds)
        one = fold_config(cfg, fold, own)
        one.resume_from = group.broadcast(one.resume_from)
        if group.is_first:
            record_settings(folder / ".hydra", own / ".hydra", one, f"benchmark.fold={one.benchmark.fold}")
        run = train_model(one)
        save_fold(cfg, run, length, group)
        close(run.loggers)
    if not group.is_first:
        return {}
    matrices = join_folds([folder / f"fold-{fold}" for fold in range(folds)])
    data = open_data(cfg, training=False)
    label, *others = matrices
    rivals = {name: HeldScores(matrices[name]) for name in others}
    facts = {"folds": [checkpoint_of(folder / f"fold-{fold}") for fold in range(folds)]}
    kept = sum(fold["best_step"] == 0 for fold in facts["folds"])
    untrained = f"{kept} of the {folds} folds kept the untrained model: no evaluation was better than that of step 0."
    subject = Subject(
        f"{label}, {folds} folds" + (f" ({kept} untrained)" if kept else ""),
        source=HeldScores(matrices[label]),
        baselines=False,
        rivals=rivals,
        facts=facts,
        folds=folds,
        notes=(untrained,) if kept else (),
    )
    return finish(cfg, folder, subject, data, loggers_of(cfg, folder))


def claim_whole(cfg: DictConfig) -> None:
    """Take the folder of several seeds or folds; what they are made with has been compared by `preflight.resume`."""
    folder = claim_folder(cfg)
    if cfg.resume_from:
        keep_settings(cfg, folder)


def fold_config(cfg: DictConfig, fold: int, folder: Path) -> DictConfig:
    """Give the config of one fold: its split, its folder, and the checkpoint to go on from if it has one."""
    one = deepcopy(cfg)
    one.benchmark.fold = fold
    one.run = f"{cfg.run}/{folder.name}"
    one.resume_from = str(folder) if cfg.resume_from and (folder / "config.yaml").is_file() else None
    return one


def record_settings(source: Path, target: Path, one: DictConfig, text: str) -> None:
    """Keep Hydra's record beside a fold's or seed's checkpoints, so that evaluate.py and resume_from find it there.

    Args:
        source: the record of the whole run.
        target: where to keep it.
        one: the settings of the fold or seed.
        text: what it sets, `key=value`, in place of what was typed for the key.
    """
    if not source.is_dir():
        return
    shutil.copytree(source, target, dirs_exist_ok=True)
    OmegaConf.save(one, target / "config.yaml")
    key = text.partition("=")[0]
    typed = [given for given in saved_overrides(source / "overrides.yaml") if split_override(given)[1] != key]
    OmegaConf.save(OmegaConf.create([*typed, text]), target / "overrides.yaml")


def save_fold(cfg: DictConfig, run: Run, steps: int, group: Group = SINGLE) -> None:
    """Score the fold's held-out queries with the model and with the untrained ones, and write the scores."""
    part = run.data.benchmark.select("test", "full")
    write_fold(run.folder, part, _sources(run, protocol_of(cfg), group), steps, write=group.is_first)


Asked = tuple[str, ScoreSource, tuple[str, ...]]
"""Name of a model, its scores, and the modes that are asked for."""


def write_fold(folder: Path, part: Benchmark, sources: Iterable[Asked], steps: int = 0, write: bool = True) -> None:
    """Score a benchmark and write a file for each model and mode; none where no query has a part of the mode.

    With them goes for how many `steps` the fold was trained.

    Where several processes score together, all call this, and one of them is to `write`.
    """
    files: list[dict[str, str | None]] = []
    for name, source, modes in sources:
        for mode, blocks in score_benchmark(source, part, modes).items():
            file = f"scores_{len(files)}.npz" if blocks else None
            if file is not None and write:
                write_scores(folder / file, mode, blocks)
            files.append({"model": name, "mode": mode, "file": file})
    if write:
        write_json(folder / DONE, {"steps": steps, "scores": files})


def _sources(run: Run, protocol: Protocol, group: Group) -> Iterator[Asked]:
    """Give the trained model and the untrained ones, with the modes that each is scored in."""
    model = run.subject.model
    if model is None:
        raise ValueError(f"{run.folder}: a fold without a model")
    source = source_of(run.subject, run.data, protocol, group)
    yield (
        "trained" if run.subject.trained else "untrained",
        source,
        protocol.modes or served_modes(source, run.data.benchmark),
    )
    wanted = run.data.baseline_protocol(protocol).modes
    for name, other in baseline_models(run.data.store, run.data.train_videos).items():
        share_state(other, group)
        source = source_of(Subject(name, model=other.to(device_of(model))), run.data, protocol, group)
        yield name, source, wanted or served_modes(source, run.data.benchmark)


def score_benchmark(
    source: ScoreSource, benchmark: Benchmark, modes: Sequence[str]
) -> dict[str, dict[str, ScoreBlock]]:
    """Score every partition: blocks by mode and partition, without those that have no row in a mode."""
    blocks: dict[str, dict[str, ScoreBlock]] = {mode: {} for mode in modes}
    if any(source.known_queries(partition) for partition in benchmark.partitions):
        for partition, mode, judged, _ in judged_rows(source, benchmark, modes, TagSettings(), "average", {}):
            blocks[mode][partition.name] = score_block(judged)
    return blocks


def checkpoint_of(folder: Path) -> dict[str, Any]:
    """Name a fold's checkpoint, its SHA-256 and its step; None for models without training."""
    path, summary = folder / "best.ckpt", folder / "training.json"
    if not path.is_file():
        return {"checkpoint": None, "checkpoint_sha256": None, "best_step": None}
    step = json.loads(summary.read_text(encoding="utf-8"))["best_step"] if summary.is_file() else None
    return {"checkpoint": str(path), "checkpoint_sha256": sha256_of(path), "best_step": step}


def join_folds(folders: Sequence[Path]) -> Matrices:
    """Put the held-out queries of all folds under each other.

    Raises:
        DataError: a score file is missing or broken, or the folds hold different models.
    """
    matrices: Matrices = {}
    parts: dict[tuple[str, str, str], list[ScoreMatrix]] = {}
    kinds = []
    for folder in folders:
        listed = json.loads((folder / DONE).read_text(encoding="utf-8"))["scores"]
        kinds.append([(entry["model"], entry["mode"]) for entry in listed])
        for entry in listed:
            matrices.setdefault(entry["model"], {}).setdefault(entry["mode"], {})
            if entry["file"] is None:  # no held-out query of this fold has a part of the mode
                continue
            for partition, block in read_scores(folder / entry["file"]).blocks.items():
                tags = block.expressions
                rows = block.queries if tags is None else tuple(map(row_id, block.queries, tags))
                matrix = ScoreMatrix(rows, block.database, block.scores)
                parts.setdefault((entry["model"], entry["mode"], partition), []).append(matrix)
    for folder, kind in zip(folders, kinds, strict=True):
        if kind != kinds[0]:
            raise DataError(f"{folder} holds scores of {kind}, {folders[0]} of {kinds[0]}: train the folds anew")
    for (model, mode, partition), found in parts.items():
        matrices[model][mode][partition] = stack_rows(found)
    return matrices


def close(loggers: Sequence[Any]) -> None:
    """End the trackers' runs, so that the next fold gets its own."""
    for logger in loggers:
        if type(logger).__name__ == "WandbLogger":
            logger.experiment.finish()
