"""What a benchmark holds, and what is odd about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from muvr_train.benchmarks.leakage import find_leaks
from muvr_train.benchmarks.types import SPLITS, Benchmark, Partition
from muvr_train.doctor.findings import Finding, Level, plural, spread

TOKENS = 77
"""The context of CLIP's text encoders, start and end included."""
_PIECE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|[^\w\s]")
MOST_PARTITIONS = 8
"""More partitions than these are counted together."""


def examine_labels(benchmark: Benchmark, text_encoder: str | None) -> Iterator[Finding]:
    """Counts, positives, levels, tags, texts, splits and the oddities that the reader met.

    Args:
        benchmark: with splits.
        text_encoder: what the store names, None where it names none.
    """
    queries, topics = len(benchmark.query_by_id), len({query.topic for query in benchmark.query_by_id.values()})
    database = len({video for part in benchmark.partitions for video in part.database})
    sizes = {"partitions": len(benchmark.partitions), "queries": queries, "database": database}
    text = (
        f"{benchmark.name}: {plural(len(benchmark.partitions), 'partition')}, {plural(queries, 'query', 'queries')}, "
        f"{plural(database, 'database video')}, {plural(topics, 'search topic')}"
    )
    if queries < len(benchmark.queries):
        text += "; partitions share queries and videos, which are counted once"
    yield Finding("benchmark", "ok", text, values={**sizes, "topics": topics})
    for partition in benchmark.partitions[:MOST_PARTITIONS]:
        yield _partition(partition)
    if len(benchmark.partitions) > MOST_PARTITIONS:
        yield Finding("partitions", "note", f"{len(benchmark.partitions) - MOST_PARTITIONS} more partitions")
    yield from _positives(benchmark)
    yield from _splits(benchmark)
    yield from _texts(benchmark, text_encoder)
    yield from _tags(benchmark)
    if masks := sum(query.mask is not None for query in benchmark.query_by_id.values()):
        text = f"{masks} of {queries} queries have one (no model looks at masks yet)"
        yield Finding("masks", "ok", text, values={"masks": masks})
    for warning in benchmark.warnings:
        yield Finding("annotation", "warning", warning)


def _partition(partition: Partition) -> Finding:
    found = [len(row.positives) for row in partition.judgements]
    splits = Counter(query.split for query in partition.queries)
    parts = "" if None in splits else f" ({', '.join(f'{split} {splits[split]}' for split in SPLITS)})"
    text = (
        f"{plural(len(partition.queries), 'query', 'queries')}{parts}, "
        f"{plural(len(partition.database), 'database video')}, {spread(found)} matches per query"
    )
    values = {"queries": len(partition.queries), "database": len(partition.database), **{s: splits[s] for s in SPLITS}}
    return Finding(f"partition {partition.name}", "ok", text, values=values)


def _positives(benchmark: Benchmark) -> Iterator[Finding]:
    levels = Counter(level for row in benchmark.judgements for level in row.positives.values())
    negatives = sum(len(row.negatives) for row in benchmark.judgements)
    hard = sum(len(row.hard_negatives) for row in benchmark.judgements)
    ignored = sum(len(row.ignored) for row in benchmark.judgements)
    listed = ", ".join(f"{name} {count}" for name, count in levels.most_common(6))
    text = f"matches by level: {listed or 'none'}; non-matches {negatives}, of them hard {hard}; not judged {ignored}"
    shared = len(benchmark.query_by_id) < len(benchmark.queries)
    if shared:
        text += "; summed over the partitions"
    values = {"levels": dict(levels), "non_matches": negatives, "hard": hard, "not_judged": ignored}
    yield Finding("labels", "ok", text, values=values)
    found = (row.query for row in benchmark.judgements if not row.positives and (row.listed or row.counted))
    if empty := list(dict.fromkeys(found)):
        text = f"{plural(len(empty), 'query', 'queries')} without a match" + (" in a partition" if shared else "")
        yield Finding("labels", "warning", text, empty)
    lost = (
        f"{video} of {row.query}"
        for partition in benchmark.partitions
        for searched in [frozenset(partition.database)]
        for row in partition.judgements
        for video in row.positives
        if video not in searched
    )
    if unreachable := list(dict.fromkeys(lost)):
        what = f"{plural(len(unreachable), 'match', 'matches')} outside the database, which cannot be found"
        yield Finding("labels", "warning", what, unreachable)


def _splits(benchmark: Benchmark) -> Iterator[Finding]:
    splits = Counter(query.split for query in benchmark.queries)
    if set(splits) == {None}:
        yield Finding("splits", "note", "none: this benchmark is for evaluation only")
        return
    source = benchmark.protocol.get("split_source", "none")
    text = ("" if source == "none" else f"by {source}: ") + ", ".join(f"{split} {splits[split]}" for split in SPLITS)
    absent = [split for split in SPLITS if not splits[split]]
    if absent:
        text += f"; no query in {', '.join(absent)}: train.py will not work, evaluate.py will with benchmark.split=all"
    yield Finding("splits", "warning" if absent else "ok", text, values={split: splits[split] for split in SPLITS})


def _texts(benchmark: Benchmark, text_encoder: str | None) -> Iterator[Finding]:
    texts = {query.id: query.text for query in benchmark.queries if query.text}
    if not texts:
        yield Finding("texts", "note", "no query has a text: only mode v can be used")
        return
    pieces = {query: len(_PIECE.findall(text)) for query, text in texts.items()}
    text = f"{len(texts)} of {len(benchmark.query_by_id)} queries have one, words {spread(list(pieces.values()))}"
    yield Finding("texts", "ok", text, values={"texts": len(texts)})
    long = [query for query, count in pieces.items() if count + 2 > TOKENS]
    if long and not str(text_encoder).startswith("hash"):
        what = (
            f"{plural(len(long), 'text')} of more than about {TOKENS} tokens (counted as a word or mark each), where "
            "CLIP's text encoders cut"
        )
        yield Finding("texts", "warning", what, long)


def _tags(benchmark: Benchmark) -> Iterator[Finding]:
    tagged = [query for query in benchmark.queries if query.tags]
    tags = Counter(tag for query in tagged for tag in query.tags)
    if not tagged:
        yield Finding("tags", "note", "no query has tags")
        return
    signs = {sign: sum(count for tag, count in tags.items() if tag.startswith(sign)) for sign in "+-"}
    text = f"{len(tagged)} of {len(benchmark.queries)} queries have some, {len(tags)} different"
    if any(signs.values()):
        text += f"; with + {signs['+']}, with - {signs['-']}"
    if filters := sum(len(partition.filters) for partition in benchmark.partitions):
        text += f"; {plural(filters, 'pair')} of a query and a tag expression"
    yield Finding("tags", "ok", text, values={"tagged": len(tagged), "different": len(tags), "expressions": filters})


def examine_leakage(benchmark: Benchmark, digests: Mapping[str, str] | None) -> Finding:
    """Videos on both sides of the splits, which training leaves out; a note only where names alone were compared."""
    report = find_leaks(benchmark, digests)
    ids = [leak.query for leak in report.leaks]
    text = "; ".join(report.lines())
    if report:
        text += " (training leaves these out)"
    level: Level = "ok" if not report else "warning" if report.compared_features else "note"
    return Finding("leakage", level, text, values={"queries": list(dict.fromkeys(ids))})
