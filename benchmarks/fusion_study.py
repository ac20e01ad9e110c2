"""Fusion heads on the built-in corpus: 8 on S2VS, 4 on late interaction, against untrained scorers and each other.

    python benchmarks/fusion_study.py                 # all 36 runs, two beside each other; a killed study goes on
    python benchmarks/fusion_study.py --pilot         # a seed of its own, on validation topics: to choose settings by

Every run trains on the training topics of `data=demo_large`, keeps the checkpoint that is best on the validation
topics, and is scored on the test topics in each mode. Intervals draw topics with replacement, the same for all rows.
Everything is kept below --work and in checkpoints/; the tables come into docs/fusion_study.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from fusion_tables import Figures, differences, write_tables

ROOT = Path(__file__).resolve().parents[1]
HEADS = {
    "s2vs": ("mean", "weighted", "harris", "gated", "query_scoring", "cross_attention", "combiner", "map_channel"),
    "late_interaction": ("mean", "gated", "query_scoring", "cross_attention"),
}
SEEDS, PILOT_SEED = (0, 1, 2), 9
UNTRAINED = "untrained"
MODES = ("v", "t", "tv", "tv+tag")
RESAMPLES = 2000
SETTINGS = (
    "data=demo_large",
    "model.whiten=128",
    "data.batch.topics=6",
    "data.batch.positives=2",
    "data.batch.hard_negatives=1",
    "data.augment.max_frames=12",
    "trainer.steps_per_epoch=50",
    "trainer.max_epochs=4",
    "trainer.every_n_epochs=1",
)
"""What all runs share, chosen by --pilot; the rest is that of experiment=fusion_<head>."""
QUIET = ("logger=csv", "benchmark.report=false", "benchmark.bootstrap=0", "callbacks.progress_bar=false")


def main() -> None:
    """Run what is not done, then write the figures and the tables."""
    options = read_options()
    if options.score:
        write(options, options.score, score(options, options.score))
        return
    seeds = (PILOT_SEED,) if options.pilot else SEEDS
    names = [f"{network}-{head}-seed{seed}" for seed in seeds for network, heads in HEADS.items() for head in heads]
    names = [UNTRAINED, *(name for name in names if not options.only or any(part in name for part in options.only))]
    started = time.monotonic()
    with ThreadPoolExecutor(options.parallel) as pool:
        list(pool.map(lambda name: run(options, name), names))
    runs = {name: read(options, name) for name in names}
    content: dict[str, Any] = {"meta": meta(options, time.monotonic() - started), "runs": runs}
    figures = Figures(content, {name: resampled(options, name) for name in names})
    content["differences"] = differences(figures)
    (options.work / "study.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    write_tables(figures, options.work / "study.md", options.doc)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("outputs/fusion_study"))
    parser.add_argument("--parallel", type=int, default=2, help="runs beside each other, one thread each")
    parser.add_argument("--pilot", action="store_true", help="seed 9, scored on the validation topics")
    parser.add_argument("--only", nargs="*", default=[], help="runs whose name holds one of these")
    parser.add_argument("--set", nargs="*", default=[], help="further settings of train.py")
    parser.add_argument("--doc", type=Path, default=None, help="page whose tables are replaced")
    parser.add_argument("--score", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def run(options: argparse.Namespace, name: str) -> None:
    """Train and score one run, unless that is done."""
    if (options.work / f"{name}.json").is_file():
        return
    start = time.monotonic()
    if name != UNTRAINED:
        train(options, name)
    command = [sys.executable, __file__, "--work", str(options.work), "--score", name]
    call([*command, *(["--pilot"] if options.pilot else []), *(["--set", *options.set] if options.set else [])])
    print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def call(command: list[str]) -> None:
    """Run a program on one thread."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")


def folder_of(options: argparse.Namespace, name: str) -> Path:
    """Give the folder of a training."""
    return ROOT / "checkpoints" / f"{options.work.name}-{name}"


def train(options: argparse.Namespace, name: str) -> None:
    """Train, unless it is done; a training that was killed goes on."""
    folder = folder_of(options, name)
    if (folder / "study.json").is_file():
        return
    network, head, seed = name.split("-")
    start = time.monotonic()
    settings = [f"experiment=fusion_{head}", *([f"model={network}"] if network != "s2vs" else [])]
    settings += [*SETTINGS, *QUIET, f"seed={seed.removeprefix('seed')}", f"run={folder.name}"]
    settings += ["benchmark.modes=[tv]", "benchmark.split=val", *options.set]
    if (folder / "last.ckpt").is_file():
        settings.append(f"resume_from={folder}")
    elif (folder / "config.yaml").is_file():
        raise SystemExit(f"{folder}: begun, without a checkpoint to go on from; remove it")
    call([sys.executable, "train.py", *settings])
    (folder / "study.json").write_text(json.dumps({"seconds": time.monotonic() - start}))


def score(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Score a run's checkpoint, or all untrained models, on the held-out topics: rows by model, mode and partition."""
    import torch
    from hydra import compose, initialize_config_dir

    from muvr_train import cli
    from muvr_train.runner.data import open_data
    from muvr_train.runner.models import baseline_models, load_checkpoint

    torch.set_num_threads(1)
    with initialize_config_dir(str(cli.config_dir()), version_base=None):
        settings = ["data=demo_large", *(setting for setting in options.set if setting.startswith("data."))]
        data = open_data(compose("train", settings), training=False)
    part = data.part("val" if options.pilot else "test")
    facts: dict[str, Any] = {"corpus": data.benchmark.protocol["corpus"]}
    if name == UNTRAINED:
        models = baseline_models(data.store, data.train_videos)
    else:
        folder = folder_of(options, name)
        loaded = load_checkpoint(folder / "best.ckpt", data.store)
        models = {name: loaded.model}
        facts |= json.loads((folder / "training.json").read_text()) | json.loads((folder / "study.json").read_text())
        facts["parameters"] = sum(p.numel() for p in loaded.model.parameters())
    start, rows, drawn = time.monotonic(), {}, {}
    for model, retriever in models.items():
        rows[model], drawn[model] = evaluated(retriever.eval(), data.store, part)
    samples: dict[str, Any] = {json.dumps([m, *key]): v for m in drawn for key, v in drawn[m].items()}
    np.savez(options.work / f"{name}.npz", **samples)
    return {**facts, "rows": rows, "scoring_seconds": time.monotonic() - start}


def evaluated(model: Any, store: Any, part: Any) -> tuple[dict[str, Any], dict[tuple[str, str, str], np.ndarray]]:
    """Give mode -> partition -> metrics, and (mode, partition, metric) -> its values in the resamples."""
    from muvr_train.evaluation import Protocol, evaluate_scores
    from muvr_train.search.sources import ModelScores

    class Remembered(ModelScores):
        """Scores a partition once for the plain modes and for `without_tags`."""

        def __init__(self) -> None:
            super().__init__(model, store)
            self.known: dict[str, dict[str, Any]] = {}

        def score(self, partition: Any, modes: Sequence[str]) -> dict[str, Any]:
            if partition.name not in self.known:
                self.known[partition.name] = super().score(partition, modes)
            return {mode: self.known[partition.name][mode] for mode in modes}

    source = Remembered()
    results = evaluate_scores(source, part, Protocol(modes=MODES, ks=(10,), bootstrap=RESAMPLES))
    rows: dict[str, Any] = {}
    for row in results.rows:
        metrics: Any = row["metrics"]
        values = {name: metrics[name] for name in ("mAP", "uAP") if name in metrics}
        rows.setdefault(str(row["mode"]), {})[str(row["partition"])] = values
    drawn = {(*key, name): v for key, found in results.resampled.items() for name, v in found.items() if "AP" in name}
    for mode in ("v", "tv"):
        found = {partition.name: without_tags(source, partition, mode) for partition in part.partitions}
        name = f"{mode}, tags ignored"
        rows[name] = {key: {"mAP": value} for key, (value, _) in found.items()}
        rows[name]["mean"] = {"mAP": float(np.mean([value for value, _ in found.values()]))}
        drawn |= {(name, key, "mAP"): values for key, (_, values) in found.items()}
    return rows, drawn


def without_tags(source: Any, partition: Any, mode: str) -> tuple[float, np.ndarray]:
    """Judge the plain scores of a mode by the tag expressions: what tags must improve on. Gives mAP, resamples."""
    from muvr_train.benchmarks.muvr_filter import filter_rows
    from muvr_train.metrics.aggregate import evaluate_partition
    from muvr_train.metrics.bootstrap import draw_topics, resampled_means
    from muvr_train.search.expanding import Expander

    rows = filter_rows(partition)
    pairs = tuple(dict.fromkeys(pair for row in rows for pair in row.pairs))
    judged = Expander(partition, source.score(partition, (mode,))[mode], pairs).expand(rows, {}).judged
    metrics = evaluate_partition(judged.scores, judged.relevance, judged.n_positive, judged.counted, pooled=False)
    topics = {query.id: query.topic for query in partition.queries}
    draws = draw_topics([topics[judgement.query] for judgement in judged.judgements], RESAMPLES)
    return metrics.metrics["mAP"], resampled_means(metrics.per_query["AP"][None], judged.counted, draws)[0]


def meta(options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Say what made the figures."""
    import torch

    from muvr_train.demo.spec import ANNOTATION, VERSION
    from muvr_train.runner.about import package_version

    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "generator": {"version": VERSION, "annotation": ANNOTATION},
        "corpus": read(options, UNTRAINED)["corpus"],
        "split": "val" if options.pilot else "test",
        "settings": [*SETTINGS, *options.set],
        "resamples": RESAMPLES,
        "versions": {"muvr_train": package_version(), "torch": torch.__version__, "python": platform.python_version()},
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "cores": len(os.sched_getaffinity(0)),
        "seconds_of_this_call": seconds,
    }


def write(options: argparse.Namespace, name: str, content: dict[str, Any]) -> None:
    """Write a run's figures; the file says that the run is done."""
    part = options.work / f".{name}.part"
    part.write_text(json.dumps(content, indent=1), encoding="utf-8")
    part.replace(options.work / f"{name}.json")


def read(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Read a run's figures."""
    content: dict[str, Any] = json.loads((options.work / f"{name}.json").read_text(encoding="utf-8"))
    return content


def resampled(options: argparse.Namespace, name: str) -> dict[tuple[str, str, str, str], np.ndarray]:
    """Read a run's resampled metrics, by (model, mode, partition, metric)."""
    with np.load(options.work / f"{name}.npz", allow_pickle=False) as archive:
        return {tuple(json.loads(key)): archive[key] for key in archive.files}


if __name__ == "__main__":
    main()
