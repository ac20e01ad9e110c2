"""The short table that a run begins with."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.benchmarks.types import SPLITS, Benchmark
from muvr_train.features.store import FeatureStore

MOST_WARNINGS = 4


def encoder_name(store: FeatureStore) -> str:
    """Name the encoder of a store's features."""
    encoder = store.manifest.get("encoder", "unknown")
    return str(encoder.get("name", encoder)) if isinstance(encoder, Mapping) else str(encoder)


def print_overview(
    corpus: str,
    store: FeatureStore,
    benchmark: Benchmark,
    expected_encoder: str | None,
    leakage: str,
    device: str,
    precision: str,
) -> None:
    """Print corpus, encoder, sizes, leakage check, device and precision to stderr."""
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    dims, name = store.dims, encoder_name(store)
    table = Table(show_header=False, title="run", title_justify="left")
    table.add_row("corpus", escape(corpus))
    size = f"{dims.regions} regions x {dims.dim}"
    if dims.fine_dim is not None:
        size += f"; for texts {dims.fine_regions} regions x {dims.fine_dim}"
    texts = "no texts" if dims.text_dim is None else f"texts {dims.text_dim}"
    table.add_row("features", escape(f"{name} ({size}; {texts})"))
    if expected_encoder is not None and name.startswith("unknown"):
        note = f"the features do not say which encoder made them; this experiment was written for {expected_encoder}"
        table.add_row("[yellow]note[/]", f"[yellow]{escape(note)}[/]")
    elif expected_encoder is not None and expected_encoder != name:
        note = f"this experiment was written for {expected_encoder}; its figures do not carry over to {name}"
        table.add_row("[bold red]warning[/]", f"[bold red]{escape(note)}[/]")
    if dims.text_dim is None and any(query.text for query in benchmark.queries):
        note = "the queries have texts, the store has no text vectors: only video queries are used"
        table.add_row("[yellow]note[/]", f"[yellow]{escape(note)}[/]")
    table.add_row("videos", escape(f"{len(store.ids())} in {store.path.name}"))
    table.add_row("queries", _queries(benchmark))
    table.add_row("leakage", escape(leakage))
    table.add_row("device", device)
    table.add_row("precision", precision)
    console.print(table)
    print_warnings(benchmark)


def _queries(benchmark: Benchmark) -> str:
    queries = benchmark.query_by_id.values()
    if all(query.split is None for query in queries):
        return f"{len(queries)}, all for evaluation"
    return ", ".join(f"{split} {sum(query.split == split for query in queries)}" for split in SPLITS)


def print_warnings(benchmark: Benchmark) -> None:
    """Print the first oddities of an annotation to stderr."""
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    for warning in benchmark.warnings[:MOST_WARNINGS]:
        console.print(f"[yellow]annotation:[/] {escape(warning)}", highlight=False, soft_wrap=True)
    if len(benchmark.warnings) > MOST_WARNINGS:
        more = len(benchmark.warnings) - MOST_WARNINGS
        console.print(f"[yellow]annotation:[/] {more} more oddities; all are in results.json under annotation_warnings")
