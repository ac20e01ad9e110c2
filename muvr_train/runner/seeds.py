"""`seed=[0,1,2]`: one run after the other that differ by their seed alone, and their summary."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.published import published_rows
from muvr_train.preflight.resume import SEED_DONE as DONE
from muvr_train.preflight.resume import trained_steps
from muvr_train.processes import Group
from muvr_train.reports.seeds import Summary, summarize
from muvr_train.reports.tables import print_tables
from muvr_train.reports.write import write_json, write_results
from muvr_train.runner.about import command_line
from muvr_train.runner.classes import plain
from muvr_train.runner.cross_fit import Run, checkpoint_of, claim_whole, close, record_settings
from muvr_train.runner.data import Data, open_data
from muvr_train.runner.finish import about_run, finish
from muvr_train.runner.folder import run_folder
from muvr_train.runner.report import report

log = logging.getLogger(__name__)
SEEDS = "seeds.json"
"""In the folder of the run: the seeds and their folders."""


def train_seeds(
    cfg: DictConfig, train_model: Callable[[DictConfig, Data | None], Run], group: Group
) -> dict[str, float]:
    """Train and evaluate a model for each of several seeds, and put their results together.

    Each seed is a run of its own in `checkpoints/<run>/seed<k>`; `resume_from` keeps the seeds that are done, unless
    they are to be trained longer, and goes on with the one that was cut short.

    Args:
        cfg: whose `seed` is a list.
        train_model: trains one seed, on data that an earlier one has opened.
        group: the processes that train together; the first one does all the rest.

    Returns:
        The flat metrics `<split>/<benchmark>/<mode>/<partition>/<metric>`, means over seeds; nothing in the other
        processes.
    """
    folder = run_folder(cfg)
    if group.is_first:
        claim_whole(cfg)
    group.barrier()
    data: Data | None = None
    length = cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch
    for seed in cfg.seed:
        own = folder / f"seed{seed}"
        if group.broadcast(bool(cfg.resume_from) and trained_steps(own / DONE) == length):
            log.info("seed %d is done: %s", seed, own)
            continue
        log.info("seed %d", seed)
        one = seed_config(cfg, seed, own)
        one.resume_from = group.broadcast(one.resume_from)
        if group.is_first:
            record_settings(folder / ".hydra", own / ".hydra", one, f"seed={seed}")
        run = train_model(one, data)
        data = run.data
        finish(one, run.folder, run.subject, data, run.loggers, group, show=False)
        if group.is_first:
            write_json(own / DONE, {"seed": seed, "steps": length})
        close(run.loggers)
    if not group.is_first:
        return {}
    return finish_seeds(cfg, folder, data or open_data(cfg, training=False))


def seed_config(cfg: DictConfig, seed: int, folder: Path) -> DictConfig:
    """Give the config of one seed: its folder, and where to go on from if it was begun."""
    one = deepcopy(cfg)
    one.seed = seed
    one.run = f"{cfg.run}/{folder.name}"
    one.resume_from = str(folder) if cfg.resume_from and (folder / "config.yaml").is_file() else None
    return one


def finish_seeds(cfg: DictConfig, folder: Path, data: Data) -> dict[str, float]:
    """Write the summary of all seeds as a run's results, and print one table."""
    folders = [folder / f"seed{seed}" for seed in cfg.seed]
    summary = summarize(folders)
    facts = [
        {"seed": seed, "folder": own.name, **checkpoint_of(own)} for seed, own in zip(cfg.seed, folders, strict=True)
    ]
    meta = describe_seeds(cfg, summary, facts)
    write_json(folder / SEEDS, {"seeds": facts})
    write_results(folder, summary.results, meta, summary.baselines, summary.calibrated)
    flat = summary.results.flat(meta["protocol"]["split"])
    write_json(folder / "metrics.json", flat)
    label = label_of(facts)
    named = {**summary.baselines, **{row.name: row.results for row in summary.calibrated}, label: summary.results}
    modes = () if not data.is_released or meta["protocol"]["trained_queries_among_them"] else summary.results.modes
    benchmark, split = summary.results.benchmark, meta["protocol"]["split"]
    references = [row for mode in modes for row in published_rows(benchmark, mode, split=split)]
    print_tables(named, tuple(cfg.benchmark.ks), references, notes=meta["notes"], about=about_run(cfg))
    log.info("results are in %s, those of each seed in %s/seed*", folder, folder)
    report(cfg, folder, label, named, meta, references, data, None)
    return flat


def label_of(facts: Sequence[dict[str, Any]]) -> str:
    """Name the row of the model in the tables."""
    kept = sum(fact["best_step"] == 0 for fact in facts)
    return f"trained, {len(facts)} seeds" + (f" ({kept} untrained)" if kept else "")


def describe_seeds(cfg: DictConfig, summary: Summary, facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Collect the facts of results.json's `meta`: those of the first seed, with what the summary is of."""
    own = {"checkpoint", "checkpoint_sha256"}
    meta = {name: value for name, value in summary.meta.items() if name not in own}
    kept = [str(fact["seed"]) for fact in facts if fact["best_step"] == 0]
    seeds = ", ".join(str(fact["seed"]) for fact in facts)
    notes = [
        f"Means over the seeds {seeds}; ± is the standard deviation over seeds (n - 1). Intervals are of the mean over "
        "seeds: each query's values are averaged before topics are drawn, so they do not hold the spread of seeds."
    ]
    if kept:
        notes.append(f"seed {', '.join(kept)} kept the untrained model: no evaluation was better than that of step 0.")
    return {
        **meta,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command_line(),
        "config": plain(cfg),
        "model": str(cfg.run),
        "seed": list(cfg.seed),
        "seeds": list(facts),
        "notes": [*summary.notes, *notes],
    }
