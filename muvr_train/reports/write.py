"""Result files: results.json for programs, per_query.csv for people with questions."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.errors import DataError
from muvr_train.results import CalibratedRow, RerankedRow, Results

DEFINITIONS = {
    "mAP": "mean over counted queries of the average precision; divisor = positives in the gallery, found or not, "
    "unless protocol.positives and protocol.average_precision say otherwise (FIVR, EVVE, CC_WEB_VIDEO)",
    "uAP": "average precision of one ranking of all (query, video) pairs of a partition",
    "recall@k": "hits in the first k / positives; where k exceeds the gallery it tells nothing and tables show '-' or "
    "leave it out",
    "hit@k": "1 if any of the first k is a positive",
    "precision@k": "hits in the first k / k",
    "MRR": "1 / rank of the first positive, 0 if none is found",
    "R-precision": "hits in the first R / R, R = number of positives",
    "nDCG": "normalised discounted cumulative gain with binary relevance",
    "mean": "plain mean over partitions (of FIVR over DSVR, CSVR and ISVR, of EVVE over events)",
    "ties": "average: expected value over random orders within a tie; optimistic, pessimistic: best and worst order",
    "mode tag_<m>": "MUVR-Filter, the expressions that the official program evaluates: the query's score + m * sum of "
    "the tags' signed cosines (0: without tags); m = K > 1: the top K by the query's score, ranked by that sum",
    "mode logic_<m>": "the same for all expressions; AND adds conditions, OR takes the best (cosines less their mean)",
    "mode tv+tag": "queries with each of their tag expressions, AND, OR or neither: the score of mode tv plus what the "
    "model's head makes of the tags (untrained: 0.3 * sum of the signed cosines, of OR their maximum)",
    "mode tv+region": "queries with a marked region: what is inside it takes the place of their frames",
    "mode upper_bound_by_labels": "no method: for each expression the combination with the best average precision",
    "intervals": "95 % percentile interval, bootstrap over the search topics of each partition; narrow with few topics."
    " Resamples without a counted query or match are left out, and their number is in the row's notes",
    "std": "standard deviation over the seeds of a run with several (n - 1); its metrics are means over them",
    "reranked.gains": "reranked minus retrieved, in the same mode; its 95 % interval resamples the same search topics "
    "for both; perfect: a reranker of the same videos that makes no mistake",
    "reranked.counts.calls": "pairs that the answerer was asked about: not those whose answer an earlier run had, nor "
    "those whose video could not be read; a pair that several tasks share is asked about once",
    "reranked.counts.from_file": "pairs whose answer an earlier run had",
    "reranked.counts.invalid": "answers that say neither yes nor no; like failed ones they change nothing",
    "reranked.cost.seconds_per_query": "sum over its pairs of the seconds from the first try to the answer; pairs that "
    "are asked at the same time each count. `cost_per` says what a query is here: with tag expressions one of them",
    "breakdowns.level": "positives of one level of correspondence; those of other levels are left out of the ranking",
    "breakdowns.operator, breakdowns.sign": "tag expressions of one operator, or of one sign; mean over these",
    "breakdowns.noise_remove": "mAP with a share of the positive pairs left out; mAP_std over the repeats",
    "breakdowns.noise_add": "mAP with as many non-matching pairs, drawn over all, taken as positives",
    "per_query.top_false": "the 5 best-scored non-matches: [[id, score], ...]; like the next two of the main model",
    "per_query.first_missed": "best-ranked positive outside the first R places (R positives), or one without features",
    "per_query.first_missed_rank": "its rank, the middle of its tie; empty for one without features",
    "counts.queries": "queries with features, scored",
    "counts.counted_queries": "of these, in mAP and recall (officially a query without a list of positives is not)",
    "counts.database": "database videos with features",
    "counts.positives": "annotated pairs in the gallery, found or not: the divisor of uAP",
    "counts.ties": "pairs of a positive and a non-positive of one query with equal scores",
    "counts.pooled_ties": "the same over the pooled ranking of uAP",
    "counts.missing_queries": "queries without features, dropped (on_missing=official)",
    "counts.missing_database": "database videos without features, counted as not retrieved (on_missing=official)",
    "counts.queries_without_text": "queries left out of the mode because they have no text",
    "counts.expressions": "pairs of a query and a tag expression: what the means are over",
    "counts.expressions_left_out": "that begin with AND or OR, which the official program does not evaluate",
    "counts.missing_expressions": "officially evaluated ones that a score file lacks, left out (on_missing=official)",
    "counts.queries_without_region": "queries left out of mode tv+region because they have no marked region",
    "counts.expressions_without_tag_vectors": "left out because a tag has no vector (officially only with AND or OR)",
    "counts.queries_without_expressions": "queries that have no evaluated expression",
    "counts.partitions": "of a mean: the partitions it is over; notes name those that are left out",
    "counts.self_removed": "queries removed from their own ranking",
}


def remove_results(folder: Path) -> None:
    """Remove what an earlier evaluation left in a folder and the next one may not write again.

    Answers stay: they were dear, and another reranking goes on with them.
    """
    for pattern in (
        "report.html",
        "report.md",
        "report.tex",
        "scores_*.npz",
        "reranked_scores_*.npz",
        "similarity_map.png",
        "questions.jsonl",
        "per_question.csv",
        "reranking/report.html",
        "reranking/report_files/*.jpg",
    ):
        for path in folder.glob(pattern):
            path.unlink()
    for path in (folder / "reranking" / "report_files", folder / "reranking"):
        with suppress(OSError):  # there is none, or something else is in it
            path.rmdir()


def write_results(
    folder: Path,
    results: Results,
    meta: Mapping[str, Any],
    baselines: Mapping[str, Results] | None = None,
    calibrated: Sequence[CalibratedRow] = (),
    reranked: Sequence[RerankedRow] = (),
) -> Path:
    """Write results.json and per_query.csv into `folder`, each at once (temp file + rename).

    Args:
        folder: made if needed.
        results: the model's rows.
        meta: plain facts about the run; the metric definitions are added.
        baselines: untrained rows on the same queries and gallery, by name.
        calibrated: the model's rows behind calibration steps.
        reranked: its rows with the first videos of each query in another order.

    Returns:
        The path of results.json.

    Raises:
        DataError: two models have one name.
    """
    own = str(meta.get("model", "model"))
    beside: list[CalibratedRow | RerankedRow] = [*calibrated, *reranked]
    entries = [(own, results), *(baselines or {}).items(), *((row.name, row.results) for row in beside)]
    named = dict(entries)
    if len(named) < len(entries):
        twice = next(name for name in named if sum(name == other for other, _ in entries) > 1)
        raise DataError(f"{folder}: two models would be called {twice!r}: give the run another name")
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "meta": {**meta, "notes": all_notes(meta.get("notes", ()), own, named), "definitions": DEFINITIONS},
        "rows": results.rows,
        "breakdowns": results.breakdowns,
        "baselines": [{"name": name, "rows": other.rows} for name, other in (baselines or {}).items()],
        "calibrated": [
            {"name": row.name, "steps": row.steps, "fitted_on": row.fitted_on, "rows": row.results.rows}
            for row in calibrated
        ],
        "reranked": [{"name": row.name, **row.facts, "rows": row.results.rows} for row in reranked],
    }
    path = folder / "results.json"
    write_json(path, content)
    write_resampled(folder / "resampled.npz", named)
    write_per_query(folder / "per_query.csv", named)
    return path


def all_notes(notes: Iterable[str], own: str, named: Mapping[str, Results]) -> list[str]:
    """Join what stands below the tables, once each.

    Args:
        notes: how to read the benchmark.
        own: name of the evaluated model.
        named: all results; what only another model's say has its name before it.
    """
    said = named[own].notes
    others = [f"{name}: {note}" for name, other in named.items() for note in other.notes if note not in said]
    return [*notes, *said, *others]


def write_resampled(path: Path, named: Mapping[str, Results]) -> None:
    """Write the resampled uAP of every row that has one, for paired intervals between runs (at once).

    An npz of `rows` [K], each the JSON list [model, mode, partition], and `uAP` float64 [K, B].
    """
    found = {
        json.dumps([name, *key], ensure_ascii=False): samples["uAP"]
        for name, results in named.items()
        for key, samples in results.resampled.items()
        if "uAP" in samples
    }
    path.unlink(missing_ok=True)
    if found:
        temporary = path.with_name(f".{path.name}")
        np.savez_compressed(temporary, rows=np.array(list(found)), uAP=np.stack(list(found.values())))
        os.replace(temporary, path)


def write_per_query(path: Path, named: Mapping[str, Results]) -> None:
    """Write the lines of all models, with every column that any of them has (at once)."""
    columns = dict.fromkeys(("model", *(key for other in named.values() for line in other.per_query for key in line)))
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns), lineterminator="\n")
        writer.writeheader()
        for name, other in named.items():
            writer.writerows({"model": name, **line} for line in other.per_query)
    os.replace(temporary, path)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file at once (temp file + rename)."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
