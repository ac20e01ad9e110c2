"""Self-supervised S2VS against untrained scorers, on edited copies of the videos of a folder.

    python benchmarks/copies_study.py DIR

For each fold (by source file) and seed one training, one checkpoint, scored on two benchmarks of the same held-out
sources: with title cards that unrelated videos share, and without. Queries of all folds are pooled. Features of each
piece of a video are encoded once and put together for every fold's videos, which changes nothing: the encoder looks at
single frames. Everything is kept below --work, and a killed study goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from muvr_train.benchmarks.copies import CopiesPlan, plan_copies
from muvr_train.benchmarks.copies_draw import CopiesSettings
from muvr_train.benchmarks.copies_recipes import Piece, Recipe
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.features.compose import SourceFrames, compose
from muvr_train.features.copies import PLAN, copies_manifest
from muvr_train.features.encoders.efficientnet_lite0 import EfficientNetLite0
from muvr_train.features.listing import list_videos
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.metrics.functional import average_precision, micro_average_precision
from muvr_train.runner.models import baseline_models, load_checkpoint
from muvr_train.search.judged import judge
from muvr_train.search.sources import ModelScores

ROOT = Path(__file__).resolve().parents[1]
STREAMS = {"video": {"grid": 3, "stages": [2, 3, 4]}}
INTROS = {True: "with shared intros", False: "without"}
FRAME_MAX = "frame_max whitened"
Scored = dict[str, list[tuple[list[str], np.ndarray, np.ndarray]]]
"""Row -> for each fold (sources of the queries, scores [Q, N], relevance [Q, N])."""


def main() -> None:
    """Run what is not done and print the table."""
    options = read_options()
    torch.set_num_threads(1)
    plans = make_plans(options)
    make_stores(options, plans)
    trainings = [(fold, seed) for seed in range(options.seeds) for fold in range(options.folds)]
    with ThreadPoolExecutor(options.parallel) as pool:
        steps = dict(zip(trainings, pool.map(lambda one: train(options, *one), trainings), strict=True))
    rows = {}
    for intros, label in INTROS.items():
        rows[label] = compare(options, intros)
    text = render(options, rows, steps)
    (options.work / f"{options.name}.md").write_text(text, encoding="utf-8")
    (options.work / f"{options.name}.json").write_text(
        json.dumps({"rows": rows, "steps": {str(k): v for k, v in steps.items()}})
    )
    print(text)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--work", type=Path, default=Path("outputs/copies_study"))
    parser.add_argument("--name", default="study", help="of the configuration; names runs and results")
    parser.add_argument("--split", default="test", choices=("val", "test"), help="val: to choose settings by")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--database", type=int, default=100, help="database videos of each fold")
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--parallel", type=int, default=2, help="trainings beside each other, one thread each")
    parser.add_argument("--set", nargs="*", default=[], help="further settings of train.py")
    return parser.parse_args()


def make_plans(options: argparse.Namespace) -> dict[tuple[int, bool], CopiesPlan]:
    """Plan the benchmark of each fold, with and without title cards."""
    names = [name for name, _ in list_videos(options.videos)]
    return {
        (fold, intros): plan_copies(
            names,
            settings=CopiesSettings(views=options.views, intros=intros, gallery=options.database),
            folds=options.folds,
            fold=fold,
        )
        for fold in range(options.folds)
        for intros in INTROS
    }


def make_stores(options: argparse.Namespace, plans: dict[tuple[int, bool], CopiesPlan]) -> None:
    """Make the features of every plan, as `extract_copies` would."""
    encoder = EfficientNetLite0(streams=STREAMS)
    sources = SourceFrames(dict(list_videos(options.videos)), short_side=round(1.5 * encoder.size))
    wanted = {piece_key(piece): piece for plan in plans.values() for recipe in plan.recipes for piece in recipe.pieces}
    manifest = make_manifest(**encoder.manifest(), sampling=sources.manifest())
    with StoreWriter(options.work / "pieces", manifest, "float16") as writer:
        todo = [key for key in wanted if not writer.has(key)]
        if todo:
            print(f"{len(todo)} pieces to encode", file=sys.stderr)

        def encode(key: str) -> np.ndarray:
            torch.set_num_threads(1)
            (frames,) = compose(Recipe("", (wanted[key],)), sources)
            return encoder.encode([frames])[0]["video"]

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for number, (key, features) in enumerate(zip(todo, pool.map(encode, todo), strict=True), 1):
                writer.add(key, features)
                if number % 200 == 0:
                    writer.flush()
    pieces = FeatureStore(options.work / "pieces")
    for (fold, intros), plan in plans.items():
        out = store_of(options, fold, intros)
        with StoreWriter(out, copies_manifest(plan, sources, encoder), "float16") as writer:
            for recipe in plan.recipes:
                if not writer.has(recipe.id, recipe.stream):
                    parts = [pieces.array(piece_key(piece)) for piece in recipe.pieces]
                    writer.add(recipe.id, np.concatenate(parts), recipe.stream)
        (out / PLAN).write_text(json.dumps(plan.to_json(), ensure_ascii=False), encoding="utf-8")


def piece_key(piece: Piece) -> str:
    """Name a piece by everything that it is."""
    return hashlib.sha256(json.dumps(Recipe("", (piece,)).to_json(), sort_keys=True).encode()).hexdigest()


def store_of(options: argparse.Namespace, fold: int, intros: bool) -> Path:
    """Give the store of a fold."""
    work: Path = options.work
    return (work / f"fold{fold}-{'intros' if intros else 'plain'}").resolve()


def run_of(options: argparse.Namespace, fold: int, seed: int) -> str:
    """Name a training."""
    return f"copies-{options.name}-fold{fold}-seed{seed}"


def train(options: argparse.Namespace, fold: int, seed: int) -> tuple[int, float]:
    """Train, unless it is done; give the chosen step and the seconds."""
    folder = ROOT / "checkpoints" / run_of(options, fold, seed)
    if not (folder / "study.json").is_file():
        start = time.monotonic()
        command = [sys.executable, "train.py", "experiment=s2vs_self_supervised", f"run={run_of(options, fold, seed)}"]
        command += [f"data.features={store_of(options, fold, True)}", f"benchmark.folds={options.folds}"]
        command += [f"benchmark.fold={fold}", f"seed={seed}", "logger=csv", "benchmark.report=false"]
        command += ["benchmark.bootstrap=0", "callbacks.progress_bar=false", *options.set]
        if (folder / "config.yaml").is_file():
            command += [f"resume_from={folder}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
        step = json.loads((folder / "training.json").read_text())["best_step"]
        (folder / "study.json").write_text(json.dumps([step, time.monotonic() - start]))
    step, seconds = json.loads((folder / "study.json").read_text())
    return int(step), float(seconds)


def compare(options: argparse.Namespace, intros: bool) -> dict[str, dict[str, list[float]]]:
    """Give mAP, uAP of each row over the pooled queries; of the trained row one value per seed."""
    scored: Scored = {}
    for fold in range(options.folds):
        store = FeatureStore(store_of(options, fold, intros))
        plan = CopiesPlan.from_json(json.loads((store.path / PLAN).read_text(encoding="utf-8")))
        part = apply_splits(plan.benchmark(), "annotation").select(options.split, "split").partitions[0]
        train_videos = [f"copies/{name}" for name in plan.names("train")]
        models = {name: model.eval() for name, model in baseline_models(store, train_videos).items()}
        for seed in range(options.seeds):
            path = ROOT / "checkpoints" / run_of(options, fold, seed) / "best.ckpt"
            models[f"trained {seed}"] = load_checkpoint(path, store).model.eval()
        for name, model in models.items():
            judged = judge(part, ModelScores(model, store).score(part, ("v",))["v"])
            topics = [next(query.topic for query in part.queries if query.id == row.query) for row in judged.judgements]
            scored.setdefault(name, []).append((topics, judged.scores, judged.relevance))
    found: dict[str, dict[str, list[float]]] = {}
    for name, folds in scored.items():
        values = found.setdefault(name.split()[0] if name.startswith("trained") else name, {"mAP": [], "uAP": []})
        values["mAP"].append(
            100 * float(np.mean(np.concatenate([precisions(scores, truth) for _, scores, truth in folds])))
        )
        pooled = micro_average_precision(
            np.concatenate([s for _, s, _ in folds]), np.concatenate([t for _, _, t in folds])
        )
        values["uAP"].append(100 * float(pooled))
    found |= intervals(scored)
    return found


def precisions(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Give the average precision of each query."""
    return np.array([average_precision(row, known) for row, known in zip(scores, truth, strict=True)])


def intervals(scored: Scored) -> dict[str, dict[str, list[float]]]:
    """95 % of the trained row's lead in mAP (mean of the seeds) when sources are drawn with replacement."""
    topics = np.array([topic for part, _, _ in scored[FRAME_MAX] for topic in part])
    each = {name: np.concatenate([precisions(s, t) for _, s, t in folds]) for name, folds in scored.items()}
    trained = np.mean([values for name, values in each.items() if name.startswith("trained")], axis=0)
    rng, names = np.random.default_rng(0), np.unique(topics)
    groups = [np.flatnonzero(topics == name) for name in names]
    leads = {}
    for name, values in each.items():
        if name.startswith("trained"):
            continue
        draws = []
        for _ in range(2000):
            rows = np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))])
            draws.append(100 * float((trained - values)[rows].mean()))
        leads[f"lead over {name}"] = {
            "mAP": [100 * float((trained - values).mean()), *np.percentile(draws, [2.5, 97.5])]
        }
    return leads


def render(options: argparse.Namespace, rows: dict[str, Any], steps: dict[tuple[int, int], Any]) -> str:
    """Draw the tables in Markdown."""
    what = f"{options.split} part, {options.folds} folds, {options.seeds} seeds, database {options.database}"
    lines = [f"{options.name}: {what}"]
    lines += ["", "| mAP / uAP (%) | " + " | ".join(rows) + " |", "|---|" + "---|" * len(rows)]
    names = [name for name in next(iter(rows.values())) if not name.startswith("lead")]
    for name in names:
        cells = []
        for values in rows.values():
            cell = [f"{np.mean(values[name][key]):.1f}" for key in ("mAP", "uAP")]
            if name == "trained" and options.seeds > 1:
                cell = [
                    f"{c} ± {np.std(values[name][k], ddof=1):.1f}" for c, k in zip(cell, ("mAP", "uAP"), strict=True)
                ]
            cells.append(" / ".join(cell))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| lead of the trained row in mAP [95 %, sources drawn] | " + " | ".join(rows) + " |",
        "|---|" + "---|" * len(rows),
    ]
    for name in [name for name in next(iter(rows.values())) if name.startswith("lead")]:
        cells = ["{:+.1f} [{:.1f}, {:.1f}]".format(*values[name]["mAP"]) for values in rows.values()]
        lines.append(f"| {name.removeprefix('lead ')} | " + " | ".join(cells) + " |")
    chosen = ", ".join(str(step) for step, _ in steps.values())
    lines += ["", f"Chosen steps: {chosen}. Longest training: {max(seconds for _, seconds in steps.values()):.0f} s."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
