"""Tables of labels for tests: any benchmark written as videos.csv, queries.jsonl and relevance.csv."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from muvr_train.benchmarks.types import MATCH, Benchmark


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_table(folder: Path, benchmark: Benchmark) -> Path:
    """Write every list of a benchmark (of disjoint partitions) as a table, and give the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    videos, labels, lines = [], [], []
    for partition in benchmark.partitions:
        asked = [query.video_id for query in partition.queries]
        searched = set(partition.database)
        for video in dict.fromkeys((*partition.database, *asked)):
            topics = sorted(partition.video_topics.get(video, ()))
            topic = topics[0].removeprefix(f"{partition.name}/") if len(topics) == 1 else ""
            videos.append((video, partition.name, topic, "yes" if video in searched else "no"))
        for query in partition.queries:
            entry = {"id": query.id, "video": query.video_id, "text": query.text, "tags": list(query.tags)}
            topic = query.topic.removeprefix(f"{partition.name}/")
            lines.append(json.dumps({**entry, "topic": topic, "partition": partition.name}, ensure_ascii=False))
        for row in partition.judgements:
            matches = [(row.query, video, 1, "" if level == MATCH else level) for video, level in row.positives.items()]
            others = [(row.query, v, 0, "hard" if v in row.hard_negatives else "") for v in sorted(row.negatives)]
            labels += matches + others
    write_csv(folder / "videos.csv", ("video", "partition", "topic", "gallery"), videos)
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_csv(folder / "relevance.csv", ("query", "video", "label", "level"), labels)
    return folder
