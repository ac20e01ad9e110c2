"""The copies benchmark's videos, composed in memory from the frames of their sources and encoded into a store."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from muvr_train.benchmarks.copies import CopiesPlan
from muvr_train.benchmarks.copies_draw import NAME
from muvr_train.benchmarks.copies_recipes import Recipe
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.compose import SourceFrames, compose
from muvr_train.features.decode import DecodeError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.extract import FAILURES, Failure
from muvr_train.features.manifest import make_manifest
from muvr_train.features.progress import track
from muvr_train.features.shards import Array, write_atomically
from muvr_train.features.writer import StoreWriter

PLAN = "copies.json"
FLUSH_EVERY = 64  # videos that a kill can cost
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CopiesReport:
    """What an extraction did: `total` videos (views count), `skipped` of them there before, and the failures."""

    out: Path
    total: int
    skipped: int
    stored: int
    failures: tuple[Failure, ...]


def find_usable(
    sources: SourceFrames, workers: int | None = None, progress: bool = True
) -> tuple[list[str], list[Failure]]:
    """Decode every source once: the names of those that can be used, and the others with the reason."""

    def reason_against(name: str) -> str | None:
        try:
            sources(name)
        except DecodeError as error:
            return str(error).removeprefix(f"{sources.paths[name]}: ")
        return None

    names, usable, failures = sorted(sources.paths), [], []
    with ThreadPoolExecutor(workers or _cores(), "sources") as pool:
        reasons = pool.map(reason_against, names)
        for name, reason in track(zip(names, reasons, strict=True), len(names), "decoding sources", progress):
            if reason is None:
                usable.append(name)
            else:
                failures.append(Failure(f"{NAME}/{name}", sources.paths[name], reason))
    return usable, failures


def extract_copies(
    plan: CopiesPlan,
    sources: SourceFrames,
    encoder: FrameEncoder,
    out: Path,
    failures: Iterable[Failure] = (),
    workers: int | None = None,
    progress: bool = True,
) -> CopiesReport:
    """Make the features of all videos of a plan that the store at `out` lacks; only the stream "video" is kept.

    Videos of which a source cannot be decoded are listed in `<out>/failures.csv` and tried again next time. The plan is
    kept as `<out>/copies.json`.

    Args:
        plan: what to compose.
        sources: frames of the sources.
        encoder: makes the features; its device decides where.
        out: the feature store; made or continued.
        failures: sources that were left out of the plan, listed in failures.csv too.
        workers: threads that compose (and, on a CPU, encode); default: one per core that this process may use.
        progress: show a bar on stderr.

    Raises:
        DataError: the store at `out` was made differently.
        ConfigError: the encoder has no stream "video".
    """
    if "video" not in encoder.streams:
        raise ConfigError(f"encoder {encoder.name}: copies need its stream 'video', it has {list(encoder.streams)}")
    workers = workers or _cores()
    failed = list(failures)
    with StoreWriter(out, copies_manifest(plan, sources, encoder), "float16") as writer:
        _write_failures(writer.path / FAILURES, failed)
        _write(writer.path / PLAN, json.dumps(plan.to_json(), ensure_ascii=False))
        todo = [recipe for recipe in plan.recipes if recipe.id not in writer.done(recipe.stream)]
        stored = 0
        made = _encode_all(todo, sources, encoder, workers)
        for recipe, result in track(made, len(todo), "composing copies", progress):
            if isinstance(result, DecodeError):
                failed.append(Failure(recipe.id, Path(*_paths(recipe, sources)), str(result)))
                continue
            writer.add(recipe.id, result, recipe.stream)
            stored += 1
            if stored % FLUSH_EVERY == 0:
                writer.flush()
        _write_failures(writer.path / FAILURES, failed)
    total = len(plan.recipes)
    return CopiesReport(out, total, total - len(todo), stored, tuple(failed))


def copies_manifest(plan: CopiesPlan, sources: SourceFrames, encoder: FrameEncoder) -> dict[str, Any]:
    """The manifest of the store that `extract_copies` makes."""
    described = encoder.manifest()
    if isinstance(described.get("features"), Mapping):
        described["features"] = {"video": described["features"].get("video")}
    return make_manifest(**{**described, "sampling": {**sources.manifest(), "plan": plan.digest}})


def read_plan(store: Path) -> CopiesPlan:
    """The plan of a store that `extract_copies` made.

    Raises:
        DataError: the store holds none.
    """
    file = store / PLAN
    if not file.is_file():
        raise DataError(
            f"data.features={store} holds no {PLAN}: it was not made for the copies benchmark. "
            "Give data.videos=DIR, from which it is made"
        )
    try:
        return CopiesPlan.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, DataError) as error:
        raise DataError(f"{file}: {error}") from error


def read_failures(store: Path) -> list[Failure]:
    """What `<store>/failures.csv` lists; nothing where there is none."""
    file = store / FAILURES
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as text:
        return [Failure(row["id"], Path(row["path"]), row["reason"]) for row in csv.DictReader(text)]


def _encode_all(
    recipes: list[Recipe], sources: SourceFrames, encoder: FrameEncoder, workers: int
) -> Iterator[tuple[Recipe, Array | DecodeError]]:
    """Features [T, R, D] of each recipe in order, or why there are none; a bounded number is under way at a time."""
    on_cpu = encoder.device.type == "cpu"
    turn = threading.Lock()  # a GPU takes one batch after another

    def work(recipe: Recipe) -> Array | DecodeError:
        try:
            pieces = compose(recipe, sources)
        except DecodeError as error:
            return error
        prepared = torch.cat([encoder.prepare(frames) for frames in pieces])
        if on_cpu:
            return encoder.encode_prepared([prepared])[0]["video"]
        with turn:
            return encoder.encode_prepared([prepared])[0]["video"]

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, "copies", torch.set_num_threads, (1,))
    pending: deque[tuple[Recipe, Future[Array | DecodeError]]] = deque()
    try:
        for recipe in recipes:
            pending.append((recipe, pool.submit(work, recipe)))
            if len(pending) > 4 * workers:
                done, future = pending.popleft()
                yield done, future.result()
        while pending:
            done, future = pending.popleft()
            yield done, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _paths(recipe: Recipe, sources: SourceFrames) -> list[str]:
    """The file of the first source of a recipe that is no title card."""
    names = [name for piece in recipe.pieces for name, _, _ in piece.shown()]
    return [str(sources.paths.get(name, name)) for name in names[:1]]


def _write(path: Path, text: str) -> None:
    def write(file: IO[bytes]) -> None:
        file.write(text.encode("utf-8"))

    write_atomically(path, write)


def _write_failures(path: Path, failures: list[Failure]) -> None:
    """Replace the list of failures; none leaves no file."""
    if not failures:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", "path", "reason"])
    rows.writerows([failure.id, str(failure.path), failure.reason] for failure in failures)
    _write(path, text.getvalue())
