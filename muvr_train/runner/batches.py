"""What a run trains on: batches of the regime that the config asks for, and hard negatives that are mined for them."""

from __future__ import annotations

import pytorch_lightning as pl
from omegaconf import DictConfig
from torch.utils.data import Dataset

from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import Batch
from muvr_train.data.dataset import SelfSupervisedBatches, SupervisedBatches
from muvr_train.data.joint import JointBatches
from muvr_train.data.mining import MinedNegatives
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.models.retriever import Retriever
from muvr_train.processes import Group
from muvr_train.runner.data import Data, protocol_of
from muvr_train.runner.models import plain
from muvr_train.search.mining import mine
from muvr_train.search.sources import ModelScores
from muvr_train.search.texts import best_mode, served_modes
from muvr_train.training.launch import Here
from muvr_train.training.mining import MineNegatives
from muvr_train.training.progress import Progress


def training_batches(cfg: DictConfig, data: Data, group: Group, mined: MinedNegatives) -> Dataset[Batch]:
    """Build the training batches of the regime that the config asks for."""
    regime = cfg.data.regime
    if regime == "supervised":
        return supervised_batches(cfg, data, group, mined)
    if regime == "self_supervised":
        return self_supervised_batches(cfg, data, group)
    kinds = supervised_batches(cfg, data, group, mined), self_supervised_batches(cfg, data, group)
    return JointBatches(*kinds, cfg.data.joint_share, cfg.seed)


def supervised_batches(cfg: DictConfig, data: Data, group: Group, mined: MinedNegatives) -> SupervisedBatches:
    """Build batches of annotated matches."""
    plan = OneToManyPlan(data.train_part, seed=cfg.seed, mined=mined, **plain(cfg.data.batch))
    return SupervisedBatches(data.store, plan, FeatureAugment(**plain(cfg.data.augment)), group)


def self_supervised_batches(cfg: DictConfig, data: Data, group: Group) -> SelfSupervisedBatches:
    """Build batches of views of unlabelled videos."""
    strong = FeatureAugment(**plain(cfg.data.augment))
    weak = FeatureAugment(temporal_crop=strong.temporal_crop, max_frames=strong.max_frames)
    return SelfSupervisedBatches(
        data.store,
        data.train_videos,
        cfg.data.batch.topics,
        weak,
        strong,
        cfg.seed,
        float(cfg.data.get("shared_intros") or 0.0),
        group,
        float(cfg.data.get("soft_mixing") or 0.0),
    )


def mining_callbacks(
    cfg: DictConfig, model: Retriever, data: Data, here: Here, progress: Progress, mined: MinedNegatives
) -> list[pl.Callback]:
    """Build the callback that mines hard negatives, where the config asks for it."""
    settings, trainer, protocol = cfg.data.mining, cfg.trainer, protocol_of(cfg)
    if settings.every_n_epochs is None:
        return []
    source = ModelScores(model, data.store, memory_budget=protocol.memory_budget, group=here.group)
    mode = best_mode(served_modes(source, data.train_part))
    return [
        MineNegatives(
            progress,
            mined,
            lambda: mine(source, data.train_part, mode, settings.top),
            settings.every_n_epochs * trainer.steps_per_epoch,
            trainer.max_epochs * trainer.steps_per_epoch,
            here.group,
        )
    ]
