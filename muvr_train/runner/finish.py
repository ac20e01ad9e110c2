"""The end of every run: evaluate, write the result files, print one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.galleries import gallery_digests
from muvr_train.benchmarks.published import PublishedRow, published_rows
from muvr_train.features.store import FeatureStore
from muvr_train.processes import SINGLE, Group
from muvr_train.reports.picture import save_similarity_picture
from muvr_train.reports.rerank_tables import print_reranked
from muvr_train.reports.save_scores import save_scores
from muvr_train.reports.tables import print_tables
from muvr_train.reports.write import remove_results, write_json, write_results
from muvr_train.results import CalibratedRow, Results
from muvr_train.runner.about import about_program
from muvr_train.runner.calibrate import calibrated_rows
from muvr_train.runner.data import Data
from muvr_train.runner.report import report
from muvr_train.runner.rerank_run import Reranked, Retrieved, rerank
from muvr_train.runner.subject import Scored, Subject, score_subject

log = logging.getLogger(__name__)


def finish(
    cfg: DictConfig,
    folder: Path,
    subject: Subject,
    data: Data,
    loggers: list[Any],
    group: Group = SINGLE,
    show: bool = True,
) -> dict[str, float]:
    """Evaluate the subject and the untrained rows on the same queries, write everything, print the table.

    Args:
        cfg: the composed config, stored in the results.
        folder: where results.json, per_query.csv, metrics.json and the picture go.
        subject: what is evaluated.
        data: store and benchmark.
        loggers: get the final metrics; W&B also the table and the picture.
        group: the processes that score together; the first one does all the rest.
        show: print the table.

    Returns:
        The flat metrics `<split>/<benchmark>/<mode>/<partition>/<metric>`.
    """
    scored = score_subject(cfg, subject, data, group)
    flat = scored.results.flat(scored.split)
    if not group.is_first:
        return flat
    meta, others = describe(cfg, data, subject, scored), scored.others
    calibrated, reranked = write_all(cfg, folder, subject, data, scored, meta)
    others |= {row.name: row.results for row in calibrated} | {row.name: row.results for row in reranked.rows}
    picture = None
    if subject.model is not None:
        picture = save_similarity_picture(folder / "similarity_map.png", subject.model, data.store, scored.part)
    named = {**others, subject.label: scored.results}
    references = references_of(scored) if data.is_released else []
    if show:
        ks, notes = scored.protocol.ks, scored.part.notes
        print_tables(named, ks, references, compared=subject.compared, notes=notes, about=about_run(cfg))
        print_reranked(reranked.rows)
    log_final(loggers, {**flat, **reranked.flat(scored.split)}, named, picture)
    log.info("results are in %s", folder)
    report(cfg, folder, subject.label, named, meta, references, data, subject.model, reranked.rows)
    if reranked.error is not None:
        raise reranked.error
    return flat


def write_all(
    cfg: DictConfig, folder: Path, subject: Subject, data: Data, scored: Scored, meta: Mapping[str, Any]
) -> tuple[Sequence[CalibratedRow], Reranked]:
    """Write the results, and again with calibrated and with reranked rows: should these fail, the others are there."""
    results, others, part, beside = scored.results, scored.others, scored.part, scored.beside
    if cfg.get("overwrite"):
        remove_results(folder)
    write_results(folder, results, meta, others)
    calibrated = calibrated_rows(cfg, folder, subject.model, subject.label, data, part, beside)
    if calibrated:
        write_results(folder, results, meta, others, calibrated)
    flat = results.flat(scored.split)
    write_json(folder / "metrics.json", flat)
    if cfg.get("save_scores"):
        log.info("the scores are in %s", ", ".join(map(str, save_scores(folder, results))))
    store = None if data.features is None else data.features.path
    reranked = rerank(cfg, folder, Retrieved(subject.label, scored.source, results, part, beside, store))
    if reranked.rows:
        write_results(folder, results, meta, others, calibrated, reranked.rows)
        write_json(folder / "metrics.json", {**flat, **reranked.flat(scored.split)})
    return calibrated, reranked


def references_of(scored: Scored) -> list[PublishedRow]:
    """Give the published rows that may stand beside the results: none where queries were trained on."""
    modes = () if scored.seen else scored.results.modes
    return [row for mode in modes for row in published_rows(scored.part.name, mode, split=scored.split)]


def about_run(cfg: DictConfig) -> str | None:
    """Name a training run, its network and its fusion head; None for an evaluation."""
    if cfg.get("run") is None:
        return None
    network, head = (str(part["_target_"]).rpartition(".")[2] for part in (cfg.model, cfg.fusion))
    return f"{cfg.run}: {network}, {head}"


def describe(cfg: DictConfig, data: Data, subject: Subject, scored: Scored) -> dict[str, Any]:
    """Collect the facts of results.json's `meta`."""
    part = scored.part
    protocol: dict[str, Any] = {
        **part.protocol,
        "split": scored.split,
        "transductive": data.transductive(scored.split),
        "trained_queries_among_them": scored.seen,
        "folds": subject.folds,
    }
    if data.train_partitions is not None:
        protocol["train_partitions"] = sorted(data.train_partitions)
    return {
        **about_program(cfg),
        "store": None if data.features is None else describe_store(data.features),
        "protocol": protocol,
        "galleries": gallery_digests(part),
        "averaged": None if part.averaged is None else list(part.averaged),
        "ties": cfg.benchmark.ties,
        "on_missing": cfg.on_missing,
        "annotation_warnings": list(part.warnings),
        "notes": list(part.notes),
        "model": str(cfg.get("run") or subject.label),
        **subject.facts,
    }


def describe_store(store: FeatureStore) -> dict[str, Any]:
    """Say where features are and what made them."""
    return {"path": str(store.path), "manifest": store.manifest}


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
            [name, row["mode"], row["partition"], *(row["metrics"].get(key) for key in ("mAP", "uAP"))]  # type: ignore[attr-defined]
            for name, results in named.items()
            for row in results.rows
        ]
        run.summary.update(dict(flat))
        run.log({"final": wandb.Table(columns=["model", "query", "partition", "mAP", "uAP"], data=lines)})
        if picture is not None:
            run.log({"similarity_map": wandb.Image(str(picture))})
        run.finish()
