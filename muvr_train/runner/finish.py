"""The end of every run: evaluate, write the result files, print one table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.galleries import gallery_digests
from muvr_train.benchmarks.published import published_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.store import FeatureStore
from muvr_train.models.baselines import BASELINES
from muvr_train.models.retriever import Retriever
from muvr_train.processes import SINGLE, Group
from muvr_train.reports.picture import save_similarity_picture
from muvr_train.reports.rerank_tables import print_reranked
from muvr_train.reports.save_scores import save_scores
from muvr_train.reports.tables import print_tables
from muvr_train.reports.write import remove_results, write_json, write_results
from muvr_train.results import Results
from muvr_train.runner.about import about_program
from muvr_train.runner.calibrate import calibrated_rows
from muvr_train.runner.data import Data, protocol_of, query_names
from muvr_train.runner.models import baseline_models, share_state
from muvr_train.runner.report import report
from muvr_train.runner.rerank_run import Retrieved, rerank
from muvr_train.search.sources import ModelScores, ScoreSource, device_of
from muvr_train.search.texts import official_texts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """What is evaluated.

    Attributes:
        label: of its rows in the tables.
        trained: a trained model is scored on the test split unless told otherwise, anything else on all queries.
        model: on its device; None where only scores are at hand.
        source: of the scores; None takes the model on the run's features.
        baselines: put the untrained rows beside it.
        rivals: other scores that are evaluated beside it, by name.
        compared: names of which the tables say who is best in which partition.
        facts: more of `meta`: checkpoint and hash.
        trained_queries: names of the queries that the model was trained on.
        folds: of a cross-fitted model, None for any other.
        notes: what else stands below its tables.
    """

    label: str
    trained: bool = False
    model: Retriever | None = None
    source: ScoreSource | None = None
    baselines: bool = True
    rivals: Mapping[str, ScoreSource] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    trained_queries: frozenset[str] = frozenset()
    folds: int | None = None
    notes: tuple[str, ...] = ()


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
    split = split_of(cfg, data, subject.trained)
    part, protocol = data.part(split), final_protocol(cfg) if group.is_first else protocol_of(cfg)
    seen = len(query_names(part) & subject.trained_queries)
    part = replace(part, notes=(*part.notes, *notes_of(subject, seen, len(part.queries)), *fitted_notes(data)))
    source = source_of(subject, data, protocol, group)
    results = evaluate_scores(source, part, protocol)
    beside = replace(protocol, keep_scores=False, noise=None, details=False)
    own = replace(beside, modes=None)  # rivals may serve fewer modes than the subject
    others = {rival: evaluate_scores(source, part, own) for rival, source in subject.rivals.items()}
    others |= untrained_rows(subject, data, part, beside, group)
    if not group.is_first:
        return results.flat(split)
    name = cfg.get("run") or subject.label
    meta = {**describe(cfg, data, part, split), "model": str(name), **subject.facts}
    meta["protocol"] |= {"trained_queries_among_them": seen, "folds": subject.folds}
    if data.train_partitions is not None:
        meta["protocol"]["train_partitions"] = sorted(data.train_partitions)
    if cfg.get("overwrite"):
        remove_results(folder)
    write_results(folder, results, meta, others)
    calibrated = calibrated_rows(cfg, folder, subject.model, subject.label, data, part, beside)
    if calibrated:  # should they fail, the raw rows are there
        write_results(folder, results, meta, others, calibrated)
    flat = results.flat(split)
    write_json(folder / "metrics.json", flat)
    if cfg.get("save_scores"):
        log.info("the scores are in %s", ", ".join(map(str, save_scores(folder, results))))
    store = None if data.features is None else data.features.path
    reranked = rerank(cfg, folder, Retrieved(subject.label, source, results, part, beside, store))
    if reranked.rows:
        write_results(folder, results, meta, others, calibrated, reranked.rows)
        write_json(folder / "metrics.json", {**flat, **reranked.flat(split)})
    others |= {row.name: row.results for row in calibrated} | {row.name: row.results for row in reranked.rows}
    picture = None
    if subject.model is not None:
        picture = save_similarity_picture(folder / "similarity_map.png", subject.model, data.store, part)
    named = {**others, subject.label: results}
    modes = results.modes if data.is_released and not seen else ()
    references = [row for mode in modes for row in published_rows(part.name, mode, split=split)]
    if show:
        print_tables(named, protocol.ks, references, compared=subject.compared, notes=part.notes, about=about_run(cfg))
        print_reranked(reranked.rows)
    log_final(loggers, {**flat, **reranked.flat(split)}, named, picture)
    log.info("results are in %s", folder)
    report(cfg, folder, subject.label, named, meta, references, data, subject.model, reranked.rows)
    if reranked.error is not None:
        raise reranked.error
    return flat


def about_run(cfg: DictConfig) -> str | None:
    """Name a training run, its network and its fusion head; None for an evaluation."""
    if cfg.get("run") is None:
        return None
    network, head = (str(part["_target_"]).rpartition(".")[2] for part in (cfg.model, cfg.fusion))
    return f"{cfg.run}: {network}, {head}"


def notes_of(subject: Subject, seen: int, queries: int) -> Iterator[str]:
    """Say what the figures must not be taken for."""
    yield from subject.notes
    if seen:
        log.warning("%s: %d of the %d evaluated queries are training queries", subject.label, seen, queries)
        yield (
            f"{seen} of the {queries} queries were trained on: these are no figures of held-out queries, and no "
            "published ones stand beside them."
        )
    if subject.folds:
        yield (
            f"Cross-fitted: uAP ranks the scores of {subject.folds} models together, whose scales may differ; mAP and "
            "recall do not mix them."
        )


def fitted_notes(data: Data) -> Iterator[str]:
    """Say what was learned from where only some partitions are trained on."""
    if data.train_partitions is not None:
        names = ", ".join(sorted(data.train_partitions))
        yield (
            f"Trained on the training topics of {names} only (data.train_partitions); the whitened untrained rows are "
            "fitted on the training videos of the same partitions, the raw ones on nothing."
        )


def split_of(cfg: DictConfig, data: Data, trained: bool) -> str:
    """Give the queries that are scored: of a trained model and of copies the test split, else all; or as asked."""
    return str(cfg.benchmark.split or ("test" if trained or data.kind == "folder" else "all"))


def final_protocol(cfg: DictConfig) -> Protocol:
    """The protocol of the evaluations during training, with all that a final one adds."""
    bootstrap, noise = cfg.benchmark.get("bootstrap", 0), cfg.benchmark.get("noise")
    return replace(protocol_of(cfg), keep_scores=True, bootstrap=bootstrap, noise=noise, details=True)


def source_of(subject: Subject, data: Data, protocol: Protocol, group: Group = SINGLE) -> ScoreSource:
    """Give where the subject's scores come from.

    Raises:
        ValueError: it has neither a source nor a model.
    """
    if subject.source is not None:
        return subject.source
    if subject.model is None:
        raise ValueError(f"{subject.label}: neither scores nor a model")
    as_text = official_texts(protocol.on_missing, data.benchmark)
    return ModelScores(subject.model, data.store, as_text, protocol.memory_budget, group)


def untrained_rows(
    subject: Subject, data: Data, part: Benchmark, protocol: Protocol, group: Group
) -> dict[str, Results]:
    """Evaluate the untrained models that stand beside a trained one, by name."""
    if not subject.baselines or subject.model is None:
        return {}
    device = device_of(subject.model)
    wanted = data.baseline_protocol(protocol)
    names = [name for name, model in BASELINES.items() if data.train_videos or not model.get("whiten")]
    models = baseline_models(data.store, data.train_videos, names)
    for model in models.values():
        share_state(model, group)
    return {name: evaluate(model.to(device), data.store, part, wanted, group) for name, model in models.items()}


def describe(cfg: DictConfig, data: Data, part: Benchmark, split: str) -> dict[str, Any]:
    """Collect the facts of results.json's `meta`."""
    return {
        **about_program(cfg),
        "store": None if data.features is None else describe_store(data.features),
        "protocol": {**part.protocol, "split": split, "transductive": data.transductive(split)},
        "galleries": gallery_digests(part),
        "averaged": None if part.averaged is None else list(part.averaged),
        "ties": cfg.benchmark.ties,
        "on_missing": cfg.on_missing,
        "annotation_warnings": list(part.warnings),
        "notes": list(part.notes),
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
