"""What a run evaluates: its subject, beside rivals and the untrained rows on the same queries."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.types import Benchmark
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.models.baselines import BASELINES
from muvr_train.models.retriever import Retriever
from muvr_train.processes import SINGLE, Group
from muvr_train.results import Results
from muvr_train.runner.data import Data, protocol_of, query_names
from muvr_train.runner.models import baseline_models, share_state
from muvr_train.search.planning import device_of
from muvr_train.search.sources import ModelScores, ScoreSource
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


@dataclass(frozen=True)
class Scored:
    """A subject that has been evaluated.

    Attributes:
        split: of its queries.
        part: those queries.
        protocol: of the subject's rows.
        beside: of the rows beside them, without what is for the subject alone.
        source: of the scores.
        results: the subject's.
        others: those of its rivals and of the untrained rows, by name.
        seen: how many of the queries it was trained on.
    """

    split: str
    part: Benchmark
    protocol: Protocol
    beside: Protocol
    source: ScoreSource
    results: Results
    others: dict[str, Results]
    seen: int


def score_subject(cfg: DictConfig, subject: Subject, data: Data, group: Group = SINGLE) -> Scored:
    """Evaluate a subject, its rivals and the untrained rows on the same queries; all processes call this."""
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
    return Scored(split, part, protocol, beside, source, results, others, seen)


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
