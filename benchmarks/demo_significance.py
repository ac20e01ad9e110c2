"""Is the trained model better than every untrained one on the built-in corpus? Three seeds, paired topic bootstrap.

    python benchmarks/demo_significance.py            # trains seeds 0, 1, 2 (runs that are there are used again)

Topics are resampled within each partition, the same for all models and seeds; a topic brings all its queries. Printed
are the differences trained - untrained of the mean over partitions, averaged over seeds, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import OmegaConf

from muvr_train.metrics.functional import average_precision, micro_average_precision
from muvr_train.models.retriever import Retriever
from muvr_train.runner.data import Data, open_data
from muvr_train.runner.models import baseline_models, load_checkpoint
from muvr_train.search.judged import JudgedScores, judge
from muvr_train.search.sources import ModelScores

Sample = dict[str, NDArray[np.int64]]


def train(seed: int, settings: list[str]) -> Path:
    """Train one seed, unless its run is there."""
    folder = Path("checkpoints") / f"demo-seed{seed}"
    if not (folder / "results.json").exists():
        command = [
            sys.executable,
            "train.py",
            "experiment=s2vs_evaclip",
            f"seed={seed}",
            f"run={folder.name}",
            *settings,
        ]
        subprocess.run(command, check=True)
    return folder


def scores_of(model: Retriever, data: Data, mode: str) -> dict[str, JudgedScores]:
    """Score the test topics of every partition."""
    partitions = data.part("test").partitions
    source = ModelScores(model, data.store)
    return {part.name: judge(part, source.score(part, [mode])[mode]) for part in partitions}


def metrics_of(scores: dict[str, JudgedScores], precision: dict[str, NDArray[np.float64]], rows: Sample) -> NDArray:
    """Mean over partitions of (mAP, uAP) in percent, on the chosen rows."""
    values = []
    for name, found in scores.items():
        chosen = rows[name]
        pooled = micro_average_precision(
            found.scores[chosen], found.relevance[chosen], int(found.n_positive[chosen].sum())
        )
        values.append((precision[name][chosen].mean(), pooled))
    return 100 * np.mean(values, axis=0)


def precisions(scores: dict[str, JudgedScores]) -> dict[str, NDArray[np.float64]]:
    """AP of every query."""
    return {
        name: np.array(
            [
                average_precision(row, judged, int(number))
                for row, judged, number in zip(found.scores, found.relevance, found.n_positive, strict=True)
            ]
        )
        for name, found in scores.items()
    }


def resamples(data: Data, count: int, seed: int = 0) -> list[Sample]:
    """The whole test part first, then `count` draws of topics with replacement."""
    rng, samples = np.random.default_rng(seed), []
    groups = {}
    for part in data.part("test").partitions:
        topics = sorted({query.topic for query in part.queries})
        groups[part.name] = [[i for i, q in enumerate(part.queries) if q.topic == topic] for topic in topics]
    samples.append({name: np.sort(np.concatenate(rows)) for name, rows in groups.items()})
    for _ in range(count):
        drawn = {name: rng.integers(len(rows), size=len(rows)) for name, rows in groups.items()}
        samples.append({name: np.concatenate([groups[name][i] for i in drawn[name]]) for name in groups})
    return samples


def main() -> None:
    """Train, score, resample, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("settings", nargs="*", help="further settings for train.py")
    options = parser.parse_args()
    runs = [train(seed, options.settings) for seed in options.seeds]
    data = open_data(OmegaConf.load(runs[0] / "config.yaml"), training=False)  # type: ignore[arg-type]
    torch.set_grad_enabled(False)
    samples = resamples(data, options.resamples)

    def curve(model: Retriever, mode: str) -> NDArray:
        scores = scores_of(model, data, mode)
        precision = precisions(scores)
        return np.array([metrics_of(scores, precision, rows) for rows in samples])

    untrained = {name: curve(model, "v") for name, model in baseline_models(data.store, data.train_videos).items()}
    trained = {
        f"trained, {mode}": np.array(
            [curve(load_checkpoint(run / "best.ckpt", data.store).model, mode) for run in runs]
        )
        for mode in ("v", "tv")
    }
    print(f"{'':28}{'mAP':>8}{'uAP':>8}   (mean over partitions, %)")
    for name, values in {**untrained, **{k: v.mean(axis=0) for k, v in trained.items()}}.items():
        print(f"{name:28}{values[0, 0]:8.1f}{values[0, 1]:8.1f}")
    for name, values in trained.items():
        spread = values[:, 0].std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(2)
        print(f"\n{name}: {len(runs)} seeds, spread {spread[0]:.1f} / {spread[1]:.1f}; minus each untrained row:")
        for other, base in untrained.items():
            gain = values.mean(axis=0) - base
            low, high = np.percentile(gain[1:], [2.5, 97.5], axis=0)
            cells = [f"{m} {gain[0, i]:+6.1f} [{low[i]:+.1f}, {high[i]:+.1f}]" for i, m in enumerate(("mAP", "uAP"))]
            print(f"  {other:26} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
