"""Runs of random scores to be compared, and the command line that compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.galleries import gallery_digests
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.reports.compare import main
from muvr_train.reports.write import write_results
from tests.matrix_scores import MatrixScores


def make_benchmark(topics: int = 6, name: str = "toy", matches: int = 4) -> Benchmark:
    parts = []
    for part in ("news", "dance"):
        queries, rows, videos = [], [], []
        for topic in range(topics):
            found = [f"{part}/m{topic}{i}" for i in range(matches)]
            videos += found
            for i in range(1 + topic % 3):
                queries.append(Query(f"{part}/猫{topic}{i}", part, f"{part}/t{topic}"))
                rows.append(Judgement(queries[-1].id, dict.fromkeys(found, "match")))
        parts.append(Partition(part, tuple(queries), tuple(rows), (*videos, *(f"{part}/d{i}" for i in range(20)))))
    return Benchmark(name, tuple(parts))


def write_run(
    folder: Path,
    seed: int,
    benchmark: Benchmark | None = None,
    bonus: float = 0.3,
    split: str = "test",
    bootstrap: int = 200,
) -> Path:
    benchmark = benchmark or make_benchmark()
    videos = list(dict.fromkeys(video for part in benchmark.partitions for video in part.database))
    queries = list(benchmark.query_by_id)
    own, other = (MatrixScores.random(queries, videos, seed + step) for step in (0, 100))
    for source in (own, other):
        for row, query in enumerate(source.matrix.queries):
            matches = benchmark.judgement_by_query[query].positives
            source.matrix.scores[row] += [bonus * (video in matches) for video in videos]
    protocol = Protocol(ks=(1, 5), bootstrap=bootstrap, details=True)
    meta = {
        "model": folder.name,
        "protocol": {"split": split, "gallery": "split"},
        "ties": "average",
        "galleries": gallery_digests(benchmark),
        "averaged": benchmark.averaged,
    }
    results, baseline = (evaluate_scores(source, benchmark, protocol) for source in (own, other))
    write_results(folder, results, meta, {"frame_max": baseline})
    return folder


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main([*map(str, arguments), "--json"]) == 0
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.out)
    return found


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    assert main([*map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err
