"""A run that goes on under other settings of its optimiser follows them from its next step; what cannot is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.training.module import RetrievalModule
from muvr_train.training.progress import Progress
from tests.training.test_averaging import Batches
from tests.training.test_module import make_module
from tests.training.test_resume import assert_equal_values

STEPS, CUT = 6, 3
RATIOS = {"text_part": 3.0, "log_weight": 10.0}
BEGUN: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1, "warmup_steps": 0, "lr_ratios": RATIOS}


@dataclass
class Used(pl.Callback):
    """Keeps the optimiser's groups as each step uses them; stops and saves after `until` steps."""

    path: Path
    until: int = STEPS
    groups: list[list[dict[str, Any]]] = field(default_factory=list)

    def on_before_optimizer_step(self, trainer: pl.Trainer, *_: Any) -> None:
        self.groups.append(
            [
                {key: value for key, value in group.items() if key != "params"}
                for group in trainer.optimizers[0].param_groups
            ]
        )

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if len(self.groups) == self.until or trainer.global_step == STEPS:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True


def run(module: RetrievalModule, path: Path, until: int = STEPS, resume: Path | None = None) -> Used:
    used = Used(path, until)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        callbacks=[Progress(0), used],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(Batches(0), batch_size=None)
    trainer.fit(module, loader, ckpt_path=None if resume is None else str(resume), weights_only=True)
    return used


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    run(make_module(STEPS, **BEGUN), tmp_path / "cut.ckpt", until=CUT)
    return tmp_path / "cut.ckpt"


def load(path: Path) -> dict[str, Any]:
    return dict(torch.load(path, weights_only=True))


def test_the_same_settings_go_on_bit_equal(cut: Path, tmp_path: Path) -> None:
    whole = run(make_module(STEPS, **BEGUN), tmp_path / "whole.ckpt")
    rest = run(make_module(STEPS, **BEGUN), tmp_path / "rest.ckpt", resume=cut)
    assert rest.groups == whole.groups[CUT:]
    one, other = load(tmp_path / "whole.ckpt"), load(tmp_path / "rest.ckpt")
    for key in ("state_dict", "optimizer_states", "lr_schedulers"):
        assert_equal_values(one[key], other[key], key)


CHANGES: list[dict[str, Any]] = [
    {"lr": 0.05},
    {"weight_decay": 0.3},
    {"weight_decay": 0.0},
    {"betas": (0.5, 0.6)},
    {"lr_ratios": {"text_part": 1.0, "log_weight": 2.0}},
    {"min_lr_ratio": 0.9},
    {"lr": 0.002, "weight_decay": 0.2, "betas": (0.8, 0.9), "lr_ratios": {"text_part": 5.0, "log_weight": 0.5}},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: "+".join(change))
def test_changed_settings_count_from_the_next_step(cut: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    settings = {"betas": (0.9, 0.999), "min_lr_ratio": 0.1, **BEGUN, **change}
    module = make_module(STEPS, **settings)
    used = run(module, tmp_path / "rest.ckpt", resume=cut)
    assert len(used.groups) == STEPS - CUT
    for step, groups in enumerate(used.groups, start=CUT):
        assert {group["part"] for group in groups} == {"base", *RATIOS}
        for group in groups:
            highest = settings["lr"] * settings["lr_ratios"].get(group["part"], 1.0)
            assert group["initial_lr"] == pytest.approx(highest)
            assert group["lr"] == pytest.approx(highest * module._lr_factor(step))
            assert group["betas"] == settings["betas"]
        assert {group["weight_decay"] for group in groups} == {0.0, settings["weight_decay"]}
    saved = load(tmp_path / "rest.ckpt")["lr_schedulers"][0]
    assert saved["last_epoch"] == STEPS


def test_more_steps_follow_the_longer_schedule_at_once(cut: Path, tmp_path: Path) -> None:
    module = make_module(10 * STEPS, **BEGUN)
    used = run(module, tmp_path / "rest.ckpt", until=1, resume=cut)
    (base, *_) = used.groups[0]
    assert base["lr"] == pytest.approx(base["initial_lr"] * module._lr_factor(CUT))


@pytest.mark.parametrize(
    "ratios", [{"text_part": 3.0}, {"text_part": 3.0, "log_weight": 0.0}, {"text_part": 3.0, "retriever.head": 10.0}]
)
def test_other_groups_are_refused(cut: Path, tmp_path: Path, ratios: dict[str, float]) -> None:
    with pytest.raises(
        ConfigError, match=r"optimizer\.lr_ratios: .* begun with .*log_weight.*text_part|text_part.*log_"
    ):
        run(make_module(STEPS, **{**BEGUN, "lr_ratios": ratios}), tmp_path / "rest.ckpt", resume=cut)


def test_weights_that_do_not_fit_are_one_line(cut: Path, tmp_path: Path) -> None:
    module = make_module(STEPS, **BEGUN)
    module.loss = CompositeLoss({"mine": SigmoidLoss(), "fused": InfoNCELoss(on="fused", temperature=0.1)})
    with pytest.raises(DataError, match=r"lacks loss\.losses\.mine\.bias, loss\.losses\.mine\.log_scale") as caught:
        run(module, tmp_path / "rest.ckpt", resume=cut)
    assert "\n" not in str(caught.value)
    module = make_module(STEPS, **BEGUN)
    layer = module.retriever.network.get_submodule("head.fconv")
    layer.weight = torch.nn.Parameter(layer.weight[:, :3].detach())
    with pytest.raises(DataError, match=r"retriever\.network\.head\.fconv\.weight .*\[1, \d+, 1, 1\].*\[1, 3, 1, 1\]"):
        run(module, tmp_path / "rest.ckpt", resume=cut)
    saved = load(cut)
    saved["state_dict"]["retriever.network.extra"] = torch.zeros(2)
    with pytest.raises(DataError, match=r"holds retriever\.network\.extra besides"):
        make_module(STEPS, **BEGUN).on_load_checkpoint(saved)
