"""The training step, the optimiser's groups and schedule, the guard, and the evaluation callback's decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from muvr_train.data.batch import Batch
from muvr_train.errors import ConfigError, DataError
from muvr_train.losses.base import LossValue
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.training import callbacks
from muvr_train.training.callbacks import EvaluateAndSave
from muvr_train.training.loggers import CsvLogger, has_wandb_key
from muvr_train.training.module import RetrievalModule
from muvr_train.training.progress import Progress
from muvr_train.types import QueryBatch, StoreDims, Tags, TextTokens, Tokens

DIMS = StoreDims(regions=1, dim=8, text_dim=8)


def make_module(steps: int = 100, **settings: Any) -> RetrievalModule:
    torch.manual_seed(0)
    losses = {"fused": InfoNCELoss(on="fused", temperature=0.1)}
    retriever = Retriever(S2VS(8, 1, batch_norm=True), WeightedFusion(DIMS), DIMS)
    return RetrievalModule(retriever, CompositeLoss(losses), steps, **settings)


def make_batch() -> Batch:
    torch.manual_seed(1)
    video = Tokens(torch.randn(2, 5, 1, 8), torch.ones(2, 5, dtype=torch.bool))
    text = TextTokens(torch.randn(2, 1, 8), torch.ones(2, 1, dtype=torch.bool))
    yes = torch.ones(2, dtype=torch.bool)
    queries = QueryBatch(("p/q0", "p/q1"), video, text, {"video": yes, "text": yes})
    database = Tokens(torch.randn(3, 5, 1, 8), torch.ones(3, 5, dtype=torch.bool))
    relevance = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    return Batch(queries, database, None, ("p/a", "p/b", "p/c"), relevance)


def test_a_step_gives_a_loss_with_gradients_and_says_how_many_negatives() -> None:
    module = make_module()
    module.train()
    module.training_step(make_batch(), 0).backward()
    assert module.retriever.network.get_parameter("head.fconv.weight").grad is not None
    assert module.last_logged["train/negatives_per_query"] == 1.5
    assert module.last_logged["train/skipped/fused"] == 0.0
    assert module.last_logged["train/loss"] == module.last_logged["train/loss/fused"] > 0


def test_a_loss_on_tags_reads_what_is_known_of_tags() -> None:
    """Of the first query's videos only the second is a match that does not meet the expression."""
    batch, module = make_batch(), make_module().eval()
    module.loss = CompositeLoss({"tags": InfoNCELoss(on="tags", temperature=0.1), "all": InfoNCELoss(temperature=0.1)})
    yes = torch.ones(2, 1, dtype=torch.bool)
    tags = Tags(torch.randn(2, 1, 8), yes, yes.float(), ~yes)
    present = {**batch.queries.present, "tags": torch.tensor([True, False])}
    of_tags = torch.tensor([[1.0, 0.0, -1.0], [-1.0, -1.0, -1.0]])
    queries = replace(batch.queries, tags=tags, present=present)
    batch = replace(batch, queries=queries, tag_relevance=of_tags)
    module.training_step(batch, 0)
    scores = module.score(batch)[0]
    expected = torch.nn.functional.softplus((scores["tags"][0, 1] - scores["tags"][0, 0]) / 0.1)
    assert module.last_logged["train/loss/tags"] == pytest.approx(float(expected), rel=1e-5)
    whole = InfoNCELoss(temperature=0.1)(scores["fused"], batch.relevance)
    assert module.last_logged["train/loss/all"] == pytest.approx(float(whole), rel=1e-5)
    unknown = replace(batch, tag_relevance=None)
    module.training_step(unknown, 0)
    assert module.last_logged["train/loss/tags"] > float(expected) + 1e-3, "without it all videos are negatives"


def test_the_guard_names_the_batch_before_the_update() -> None:
    module = make_module()
    module.train()
    module.retriever.network.get_parameter("head.fconv.weight").data.fill_(float("nan"))
    with pytest.raises(DataError, match=r"the loss is nan.*p/q0, p/q1.*p/a, p/b, p/c") as caught:
        module.training_step(make_batch(), 0)
    assert "It begins in the scores 'video' (similarity network S2VS, fusion head " in str(caught.value)


class NaNHead(MeanFusion):
    def combine(self, parts: dict[str, torch.Tensor], query: QueryBatch) -> torch.Tensor:
        return super().combine(parts, query) * float("nan")


class NaNLoss(InfoNCELoss):
    def compute(self, *given: Any) -> LossValue:
        value = super().compute(*given)
        return replace(value, value=value.value * float("inf"))


def test_the_guard_names_the_head_or_the_loss_where_it_begins() -> None:
    module = make_module()
    module.retriever.head = NaNHead(module.retriever.dims)
    with pytest.raises(DataError, match=r"It begins in the scores 'fused' \(fusion head NaNHead\)"):
        module.training_step(make_batch(), 0)
    module = make_module()
    module.loss = CompositeLoss({"good": InfoNCELoss(), "mine": NaNLoss()})
    with pytest.raises(DataError, match=r"scores are sound, so it begins in loss.losses.mine \(NaNLoss\)\. Queries"):
        module.training_step(make_batch(), 0)


def test_biases_norms_and_scalars_are_not_decayed() -> None:
    module = make_module(weight_decay=0.1)
    optimizer = module.configure_optimizers()["optimizer"]  # type: ignore[index]
    decayed = {
        id(parameter)
        for group in optimizer.param_groups
        if group["weight_decay"] == 0.1
        for parameter in group["params"]
    }
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.1, 0.0}
    seen = 0
    for name, parameter in module.named_parameters():
        norm = isinstance(module.get_submodule(name.rpartition(".")[0]), nn.BatchNorm2d)
        assert (id(parameter) in decayed) == (parameter.ndim >= 2 and not norm and not name.endswith("bias")), name
        seen += parameter.requires_grad
    assert seen == sum(len(group["params"]) for group in optimizer.param_groups) > 15


def test_some_parameters_learn_at_another_rate() -> None:
    module = make_module(lr=0.01, lr_ratios={"text_part": 3.0, "log_weight": 10.0})
    optimizer = module.configure_optimizers()["optimizer"]  # type: ignore[index]
    rates = {id(parameter): group["initial_lr"] for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in module.named_parameters():
        if "head.bias" in name:
            assert id(parameter) not in rates, "no loss sees it"
            continue
        expected = 0.03 if "text_part" in name else 0.1 if "log_weight" in name else 0.01
        assert rates[id(parameter)] == pytest.approx(expected), name


def test_the_schedule_warms_up_and_ends_at_the_floor() -> None:
    module = make_module(steps=200, warmup_steps=10, min_lr_ratio=0.1)
    factor = module._lr_factor
    assert factor(0) == pytest.approx(0.1)
    assert factor(9) == factor(10) == pytest.approx(1.0)
    assert factor(105) == pytest.approx(0.55)  # half of the cosine: (1 + 0.1) / 2
    assert factor(200) == factor(500) == pytest.approx(0.1)
    assert make_module(steps=50, warmup_steps=1000).warmup_steps == 5


class Values:
    """Evaluations with known results."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def __call__(self) -> dict[str, float]:
        return {"val/x/v/mean/mAP": self.values.pop(0)}


class Steps(torch.utils.data.Dataset[Batch]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, n: int) -> Batch:
        return make_batch()


def fit(folder: Path, values: Values, patience: int | None = None, monitor: str = "val/x/v/mean/mAP") -> Any:
    progress = Progress(0)
    callback = EvaluateAndSave(progress, values, lambda: {"zero_shot/x": 0.5}, folder, monitor, 2, 1, 6, 100, patience)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=[CsvLogger(folder)],
        callbacks=[progress, callback],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(make_module(6), torch.utils.data.DataLoader(Steps(), batch_size=None))
    return callback, progress


def test_the_best_checkpoint_is_that_of_the_best_value(tmp_path: Path) -> None:
    callback, progress = fit(tmp_path, Values(0.1, 0.4, 0.3, 0.4))
    assert (callback.best, callback.best_step, progress.finished) == (0.4, 2, 6)
    best = torch.load(tmp_path / "best.ckpt", weights_only=True)
    last = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert best["callbacks"]["Progress"]["finished"] == 2
    assert last["callbacks"]["Progress"]["finished"] == 6
    assert not list(tmp_path.glob(".*"))
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert rows[0] == "step,name,value"
    assert rows[1:3] == ["0,zero_shot/x,0.5", "0,val/x/v/mean/mAP,0.1"]


@pytest.mark.parametrize(("seconds", "steps"), [(120.0, [2, 4, 6]), (-1.0, [1, 2, 3, 4, 5, 6])])
def test_a_single_process_also_saves_when_time_has_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float, steps: list[int]
) -> None:
    saved: list[int] = []
    save = EvaluateAndSave._save

    def spy(self: EvaluateAndSave, trainer: pl.Trainer, name: str) -> None:
        saved.extend([self.progress.finished] if name == "last.ckpt" else [])
        save(self, trainer, name)

    monkeypatch.setattr(callbacks, "SAVE_EVERY", seconds)
    monkeypatch.setattr(EvaluateAndSave, "_save", spy)
    fit(tmp_path, Values(0.5, 0.4, 0.3, 0.2))
    assert saved == steps


def test_early_stop(tmp_path: Path) -> None:
    callback, progress = fit(tmp_path, Values(0.5, 0.4, 0.3, 0.9), patience=2)
    assert progress.finished == 4
    assert callback.best == 0.5


def test_a_monitor_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"monitor=val/y is not a metric.*val/x/v/mean/mAP"):
        fit(tmp_path, Values(0.5), monitor="val/y")


def test_the_csv_is_cut_back_to_a_step(tmp_path: Path) -> None:
    logger = CsvLogger(tmp_path)
    logger.cut_back(3)
    for step in (0, 3, 4):
        logger.log_metrics({"b": 0.1 + 0.2, "a": float(step)}, step)
    with logger.path.open("a") as file:
        file.write("4,unfini")
    logger.cut_back(3)
    assert logger.path.read_text().splitlines() == [
        *("step,name,value", "0,a,0.0", "0,b,0.30000000000000004", "3,a,3.0", "3,b,0.30000000000000004")
    ]
    logger.cut_back(-1)
    assert logger.path.read_text().splitlines() == ["step,name,value"]


def test_wandb_is_offline_without_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not has_wandb_key()
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password 0123\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert has_wandb_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert not has_wandb_key()
    monkeypatch.setenv("WANDB_API_KEY", "0123")
    assert has_wandb_key()
