"""The moving average of the weights: its values, what is evaluated and saved, and going on from a checkpoint."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor

from muvr_train.data.batch import Batch
from muvr_train.errors import ConfigError
from muvr_train.training.averaging import TRAINED, WeightAverage
from muvr_train.training.callbacks import EvaluateAndSave
from muvr_train.training.module import RetrievalModule
from muvr_train.training.progress import Progress
from tests.training.test_module import make_batch, make_module
from tests.training.test_resume import assert_equal_values

STEPS, ACCUMULATE = 6, 2


class Batches(torch.utils.data.Dataset[Batch]):
    """The batches after those that are done."""

    def __init__(self, done: int) -> None:
        self.done = done

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, number: int) -> Batch:
        return make_batch()


class Watch(pl.Callback):
    """Keeps the weights after every batch, and stops where it is told."""

    def __init__(self, until: int = STEPS) -> None:
        self.weights: list[dict[str, Tensor]] = []
        self.until = until

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self.weights.append({name: value.clone() for name, value in pl_module.state_dict().items()})
        trainer.should_stop = len(self.weights) >= self.until


def run(
    folder: Path, decay: float = 0.5, until: int = STEPS, resume: str | None = None, ema: float | None = 0.5
) -> Any:
    """Train; gives the weights after each batch, those that were evaluated, and the average."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    module: RetrievalModule = make_module(STEPS, lr=0.05, recipe={"ema": ema})
    progress, watch, average, seen = Progress(0), Watch(until), WeightAverage(decay), list[dict[str, Tensor]]()

    def evaluate() -> dict[str, float]:
        with average.applied():
            seen.append({name: value.clone() for name, value in module.state_dict().items()})
        return {"m": float(len(seen))}

    save = EvaluateAndSave(progress, evaluate, dict, folder, "m", 2, 1, STEPS, 100)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        accumulate_grad_batches=ACCUMULATE,
        logger=False,
        callbacks=[progress, watch, average, save],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(Batches(0), batch_size=None)
    trainer.fit(module, loader, ckpt_path=resume, weights_only=True)
    return watch.weights, seen, average


def test_the_average_is_that_of_the_formula(tmp_path: Path) -> None:
    weights, seen, average = run(tmp_path, decay=0.15)
    steps = weights[1::2]  # two batches make a step
    assert [
        bool((a["retriever.network.head.fconv.weight"] == b["retriever.network.head.fconv.weight"]).all())
        for a, b in itertools.pairwise(weights)
    ] == [False, True, False, True, False]
    names = {name for name, _ in make_module(STEPS).named_parameters()}
    expected = {name: value.double() for name, value in seen[0].items()}  # of step 0: the weights as they were
    for n, new in enumerate(steps):
        decay = min(0.15, (1 + n) / (10 + n))
        for name, value in new.items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double() if name in names else value.double()
        for name, value in seen[n + 1].items():
            torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6, msg=name)
    assert average.updates == 3
    buffers = seen[-1].keys() - names
    assert any("running_mean" in name for name in buffers)
    assert all(torch.equal(seen[-1][name], steps[-1][name]) for name in buffers)
    assert not torch.equal(
        seen[-1]["retriever.network.head.fconv.weight"], steps[-1]["retriever.network.head.fconv.weight"]
    )


def test_checkpoints_hold_the_average_and_the_weights_of_training(tmp_path: Path) -> None:
    weights, seen, _ = run(tmp_path)
    for name in ("best.ckpt", "last.ckpt"):  # the value grows, so the last is the best
        saved = torch.load(tmp_path / name, weights_only=True)
        assert_equal_values(dict(saved["state_dict"]), seen[-1], "average")
        assert_equal_values(dict(saved[TRAINED]), weights[-1], "trained")


@pytest.mark.parametrize("at", [2, 4])
def test_a_run_that_goes_on_ends_bit_equal(tmp_path: Path, at: int) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "cut", until=at)
    run(tmp_path / "cut", resume=str(tmp_path / "cut" / "last.ckpt"))
    whole, cut = (torch.load(tmp_path / name / "last.ckpt", weights_only=True) for name in ("whole", "cut"))
    for key in ("state_dict", TRAINED, "optimizer_states"):
        assert_equal_values(whole[key], cut[key], key)
    assert whole["callbacks"]["WeightAverage"] == cut["callbacks"]["WeightAverage"] == {"updates": 3}


def test_weight_averaging_is_not_switched_on_or_off_on_the_way(tmp_path: Path) -> None:
    run(tmp_path, until=2)
    with pytest.raises(ConfigError, match=r"trainer.ema=None: the run was begun with another, give trainer.ema=0.5"):
        run(tmp_path, resume=str(tmp_path / "last.ckpt"), ema=None)


def test_the_average_of_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="only while a model is trained"), WeightAverage(0.9).applied():
        pass
