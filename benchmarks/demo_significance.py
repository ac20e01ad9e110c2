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
from numpy.typing import NDArray
from omegaconf import OmegaConf

from muvr_train.evaluation import Protocol, evaluate
from muvr_train.models.retriever import Retriever
from muvr_train.runner.data import Data, open_data
from muvr_train.runner.models import baseline_models, load_checkpoint


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


def curve(model: Retriever, data: Data, mode: str, count: int) -> NDArray[np.float64]:
    """Mean over partitions of (mAP, uAP) in percent: of the whole test part first, then of `count` resamples."""
    results = evaluate(model, data.store, data.part("test"), Protocol(modes=(mode,), bootstrap=count))
    if not all(results.resampled.values()):
        sys.exit("a partition has one test topic: nothing can be resampled, use a larger data.size")
    whole = [[results.metrics(mode)[name]] for name in ("mAP", "uAP")]
    drawn = [np.mean([part[name] for part in results.resampled.values()], axis=0) for name in ("mAP", "uAP")]
    return 100 * np.concatenate([whole, drawn], axis=1).T


def main() -> None:
    """Train, score, resample, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("settings", nargs="*", help="further settings for train.py")
    options = parser.parse_args()
    runs = [train(seed, options.settings) for seed in options.seeds]
    data = open_data(OmegaConf.load(runs[0] / "config.yaml"), training=False)  # type: ignore[arg-type]
    models = baseline_models(data.store, data.train_videos)
    untrained = {name: curve(model, data, "v", options.resamples) for name, model in models.items()}
    best = [load_checkpoint(run / "best.ckpt", data.store).model for run in runs]
    trained = {
        f"trained, {mode}": np.array([curve(model, data, mode, options.resamples) for model in best])
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
