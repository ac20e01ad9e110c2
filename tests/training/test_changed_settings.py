"""A run that goes on under other settings of its optimiser follows them from its next step; what cannot is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, flag_override

from muvr_train import cli
from muvr_train.errors import ConfigError, DataError
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.runs import saved_overrides
from muvr_train.runner.folder import claim_folder, find_resume, keep_settings
from muvr_train.training.continuing import refuse_other_run
from muvr_train.training.loggers import CsvLogger
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


def run(
    module: RetrievalModule, path: Path, until: int = STEPS, resume: Path | None = None, accumulate: int = 1
) -> Used:
    used = Used(path, until)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        accumulate_grad_batches=accumulate,
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


@pytest.mark.parametrize(("accumulate", "places"), [(1, [3, 4, 5]), (2, [1, 2]), (3, [1]), (4, [0, 1])])
def test_steps_of_another_size_go_on_at_their_place(
    cut: Path, tmp_path: Path, accumulate: int, places: list[int]
) -> None:
    """Three of six batches are done in steps of one; the last step of a run may have fewer batches."""
    module = make_module(-(-STEPS // accumulate), **BEGUN)
    used = run(module, tmp_path / "rest.ckpt", resume=cut, accumulate=accumulate)
    rates = [groups[0]["lr"] for groups in used.groups]
    assert rates == pytest.approx([0.01 * module._lr_factor(place) for place in places])
    assert len(set(rates)) == len(rates)


MOVED = [
    {},
    {"text_part": 3.0},
    {"log_weight": 1.0, "retriever.head": 10.0, "text_part": 2.0},
    {"retriever.network": 0.0},  # frozen from now on
]


@pytest.mark.parametrize("ratios", MOVED, ids="+".join)
def test_moments_go_with_their_parameters_into_other_groups(
    cut: Path, tmp_path: Path, ratios: dict[str, float]
) -> None:
    module, before = make_module(STEPS, **{**BEGUN, "lr_ratios": ratios}), load(cut)
    moments = moments_of(before)
    assert len(moments) > 15
    module.on_load_checkpoint(before)
    after = moments_of(before)
    trained = {name for name, value in module.named_parameters() if value.requires_grad}
    assert after.keys() == trained & moments.keys()
    assert all(moments[name] is value for name, value in after.items())
    used = run(module, tmp_path / "rest.ckpt", resume=cut)
    assert len(used.groups) == STEPS - CUT
    assert {group["part"] for group in used.groups[0]} == (
        {"base", *ratios} - {part for part in ratios if not ratios[part]}
    )
    steps = {float(value["step"]) for value in moments_of(load(tmp_path / "rest.ckpt")).values()}
    assert steps == {float(STEPS)}


def test_a_checkpoint_that_does_not_name_its_parameters_is_refused(cut: Path) -> None:
    saved = load(cut)
    del saved["optimizer_states"][0]["param_groups"][-1]["names"]
    with pytest.raises(DataError, match="written by an earlier version"):
        make_module(STEPS, **BEGUN).on_load_checkpoint(saved)


def test_what_was_frozen_begins_its_moments(tmp_path: Path) -> None:
    frozen = {**BEGUN, "lr_ratios": {"retriever.network": 0.0}}
    run(make_module(STEPS, **frozen), tmp_path / "cut.ckpt", until=CUT)
    run(make_module(STEPS, **BEGUN), tmp_path / "rest.ckpt", resume=tmp_path / "cut.ckpt")
    before, after = load(tmp_path / "cut.ckpt"), load(tmp_path / "rest.ckpt")
    steps = {name: int(value["step"]) for name, value in moments_of(after).items()}
    assert {count for name, count in steps.items() if name.startswith("retriever.network.")} == {STEPS - CUT}
    assert {count for name, count in steps.items() if not name.startswith("retriever.network.")} == {STEPS}
    name = "retriever.network.head.fconv.weight"
    assert not torch.equal(before["state_dict"][name], after["state_dict"][name])


def moments_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The optimiser's state by the names of the parameters."""
    (optimizer,) = checkpoint["optimizer_states"]
    return {
        name: optimizer["state"][place]
        for group in optimizer["param_groups"]
        for name, place in zip(group["names"], group["params"], strict=True)
        if place in optimizer["state"]
    }


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


def test_a_teacher_is_known_by_its_weights() -> None:
    teacher = {"run": "fine", "sha256": "a" * 64}
    refuse_other_run({"teacher": teacher}, {"teacher": {**teacher, "run": "renamed"}})
    for other in ({"run": "fine", "sha256": "b" * 64}, None):
        with pytest.raises(ConfigError, match="teacher: the run was begun with"):
            refuse_other_run({"teacher": teacher}, {"teacher": other})


@pytest.fixture
def folder(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was stopped after `CUT` steps."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "checkpoints" / "a"
    folder.mkdir(parents=True)
    cut.rename(folder / "last.ckpt")
    (folder / "config.yaml").write_text("run: a\n")
    (folder / "metrics.csv").write_text("step,name,value\n3,x,1.0\n4,x,1.0\n")
    return folder


def settings_of(name: str, **more: Any) -> DictConfig:
    return OmegaConf.create(
        {"run": name, "resume_from": f"checkpoints/{name}", "trainer": {"max_epochs": 1, "steps_per_epoch": 6}, **more}
    )


def test_the_folder_changes_only_once_the_run_goes_on(folder: Path) -> None:
    cfg = settings_of("a", new="${run} ü")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = make_module(STEPS, **BEGUN, recipe={"ema": 0.9})
    misfit = make_module(STEPS, **BEGUN)
    misfit.loss = CompositeLoss({"mine": SigmoidLoss()})
    for module, error in ((other, ConfigError), (misfit, DataError)):
        claim_folder(cfg)
        with pytest.raises(error):
            find_resume(cfg, folder, [CsvLogger(folder)], module.refuse_other)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    path = find_resume(cfg, folder, [CsvLogger(folder)], make_module(STEPS, **BEGUN).refuse_other)
    assert path == "checkpoints/a/last.ckpt" or Path(str(path)) == folder / "last.ckpt"
    assert OmegaConf.load(folder / "config.yaml").new == "a ü"
    assert (folder / "metrics.csv").read_text() == "step,name,value\n3,x,1.0\n"
    assert sorted(entry.name for entry in folder.iterdir()) == ["config.yaml", "last.ckpt", "metrics.csv"]


@pytest.mark.parametrize("content", [b"", b"no checkpoint"])
def test_a_damaged_checkpoint_changes_nothing(folder: Path, content: bytes) -> None:
    (folder / "last.ckpt").write_bytes(content)
    with pytest.raises(DataError, match=r"last\.ckpt is no checkpoint of a run, or it is damaged"):
        find_resume(settings_of("a"), folder, [CsvLogger(folder)], make_module(STEPS, **BEGUN).refuse_other)
    assert (folder / "config.yaml").read_text() == "run: a\n"
    assert "4,x,1.0" in (folder / "metrics.csv").read_text()


def test_hydras_record_changes_with_the_settings(folder: Path) -> None:
    full = Composer(cli.config_dir(), "train").compose(["run=a", "resume_from=checkpoints/a", "seed=5"])
    with flag_override(full.hydra, ["readonly", "struct"], [False, False]):
        full.hydra.runtime.output_dir = str(folder)
        full.hydra.overrides.task = ["seed=5", "run='a\\${b}'"]
    HydraConfig.instance().set_config(full)
    cfg = OmegaConf.masked_copy(full, [key for key in full if key != "hydra"])
    keep_settings(cfg, folder)
    record = folder / ".hydra"
    assert OmegaConf.load(record / "config.yaml") == cfg
    assert saved_overrides(record / "overrides.yaml") == ["seed=5", "run='a\\${b}'"]
    assert OmegaConf.load(record / "hydra.yaml").hydra.runtime.choices.fusion == "weighted"
    (folder / "seed0").mkdir()
    keep_settings(cfg, folder / "seed0")
    assert [path.name for path in (folder / "seed0").iterdir()] == ["config.yaml"]
