"""The end of every run: evaluate, write the result files, print one table."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.published import published_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.evaluation import evaluate
from muvr_train.models.retriever import Retriever
from muvr_train.reports.picture import save_similarity_picture
from muvr_train.reports.tables import print_tables
from muvr_train.reports.write import write_json, write_results
from muvr_train.results import Results
from muvr_train.runner.data import Data, protocol_of
from muvr_train.runner.models import baseline_models, plain
from muvr_train.search.sources import device_of

log = logging.getLogger(__name__)


def finish(
    cfg: DictConfig,
    folder: Path,
    model: Retriever,
    data: Data,
    loggers: list[Any],
    trained: bool,
    label: str = "trained",
    baselines: bool = True,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """Evaluate a model and the untrained rows on the same queries, write everything, print the table.

    Args:
        cfg: the composed config, stored in the results.
        folder: where results.json, per_query.csv, metrics.json and the picture go.
        model: on its device.
        data: store and benchmark.
        loggers: get the final metrics; W&B also the table and the picture.
        trained: a trained model is scored on the test split unless told otherwise, an untrained one on all queries.
        label: of the model in the table.
        baselines: put the untrained rows beside it.
        facts: more of `meta`: checkpoint and hash.

    Returns:
        The flat metrics `<split>/<benchmark>/<mode>/<partition>/<metric>`.
    """
    split = cfg.benchmark.split or ("test" if trained or data.kind == "folder" else "all")
    part, protocol = data.part(split), protocol_of(cfg)
    results = evaluate(model, data.store, part, protocol)
    others: dict[str, Results] = {}
    if baselines:
        device = device_of(model)
        for other, untrained in baseline_models(data.store, data.train_videos).items():
            others[other] = evaluate(untrained.to(device), data.store, part, data.baseline_protocol(protocol))
    name = cfg.get("run") or label
    meta = {**describe(cfg, data, part, split), "model": str(name), **(facts or {})}
    write_results(folder, results, meta, others)
    flat = results.flat(split)
    write_json(folder / "metrics.json", flat)
    picture = save_similarity_picture(folder / "similarity_map.png", model, data.store, part)
    named = {**others, label: results}
    references = (
        [row for mode in results.modes for row in published_rows(part.name, mode, split=split)] if data.is_muvr else []
    )
    print_tables(named, protocol.ks, references)
    log_final(loggers, flat, named, picture)
    log.info("results are in %s", folder)
    return flat


def describe(cfg: DictConfig, data: Data, part: Benchmark, split: str) -> dict[str, Any]:
    """Collect the facts of results.json's `meta`."""
    return {
        "version": package_version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": shlex.join(sys.orig_argv[1:]),
        "config": plain(cfg),
        "seed": cfg.seed,
        "store": {"path": str(data.store.path), "manifest": data.store.manifest},
        "protocol": {**part.protocol, "split": split, "transductive": data.transductive(split)},
        "ties": cfg.benchmark.ties,
        "on_missing": cfg.on_missing,
        "annotation_warnings": list(part.warnings),
    }


def package_version() -> str:
    """The installed version, or "source" where the package is not installed."""
    try:
        return version("muvr-train")
    except PackageNotFoundError:
        return "source"


def log_final(
    loggers: list[Any], flat: Mapping[str, float], named: Mapping[str, Results], picture: Path | None
) -> None:
    """Give W&B the final metrics, the final table and the picture."""
    for logger in loggers:
        run = getattr(logger, "experiment", None)
        if type(logger).__name__ != "WandbLogger" or run is None:
            continue
        import wandb

        lines = [
            [name, row["mode"], row["partition"], row["metrics"]["mAP"], row["metrics"]["uAP"]]  # type: ignore[index]
            for name, results in named.items()
            for row in results.rows
        ]
        run.summary.update(dict(flat))
        run.log({"final": wandb.Table(columns=["model", "query", "partition", "mAP", "uAP"], data=lines)})
        if picture is not None:
            run.log({"similarity_map": wandb.Image(str(picture))})
        run.finish()
