"""What a run trains on: batches of the regime that the config asks for, and hard negatives that are mined for them."""

from __future__ import annotations

import logging

import pytorch_lightning as pl
from omegaconf import DictConfig
from torch.utils.data import Dataset

from muvr_train.benchmarks.holes import without_untagged
from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import REGION, Batch, has_regions
from muvr_train.data.dataset import SelfSupervisedBatches, SupervisedBatches
from muvr_train.data.joint import JointBatches
from muvr_train.data.mining import MinedNegatives
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.data.part_dropout import PartDropout
from muvr_train.errors import DataError
from muvr_train.features.store import tag_key
from muvr_train.models.retriever import Retriever
from muvr_train.processes import Group
from muvr_train.runner.classes import plain
from muvr_train.runner.data import Data, protocol_of
from muvr_train.search.mining import mine
from muvr_train.search.sources import ModelScores
from muvr_train.search.texts import best_mode, served_modes
from muvr_train.training.launch import Here
from muvr_train.training.mining import MineNegatives
from muvr_train.training.progress import Progress

log = logging.getLogger(__name__)


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
    """Build batches of annotated matches.

    Raises:
        DataError: tag expressions or marked regions are asked for, and no training query has one with vectors; or
            videos or texts are to be hidden, and none has a text (where `data.optional_parts` allows it, the settings
            are left out with a warning).
    """
    part, store, settings = data.train_part, data.store, plain(cfg.data.batch)
    dropout, regions = plain(cfg.data.part_dropout), cfg.data.regions
    if rows := settings["tag_rows"]:
        part, lost = without_untagged(part, lambda query, tag: store.has(tag_key(query, tag), "tags"))
        if store.dims.text_dim is None or not any(partition.filters for partition in part.partitions):
            lack(cfg, f"data.batch.tag_rows={rows}: {_why_untagged(cfg, lost)}")
            settings["tag_rows"], dropout["tags"] = 0, 0.0
        elif lost:
            log.warning("%d tag expressions of training queries have no vectors and are left out of training", lost)
    texts = store.dims.text_dim is not None and any(store.has(query.id, "text") for query in part.queries)
    for kind in ("video", "text"):
        if dropout[kind] and not texts:
            what = (
                f"no training query{_chosen(cfg)} has a text in {_named(cfg)}, and of video and text one always stays"
            )
            lack(cfg, f"data.part_dropout.{kind}={dropout[kind]}: {what}")
            dropout[kind] = 0.0
    if regions and not (has_regions(store) and any(store.has(query.id, REGION) for query in part.queries)):
        what = f"no training query{_chosen(cfg)} has a marked region with features in {_named(cfg)}"
        lack(cfg, f"data.regions=true: {what}")
        regions, dropout["region"] = False, 0.0
    plan = OneToManyPlan(part, seed=cfg.seed, mined=mined, **settings)
    augment = FeatureAugment(**plain(cfg.data.augment))
    return SupervisedBatches(store, plan, augment, group, PartDropout(**dropout), regions)


def _why_untagged(cfg: DictConfig, lost: int) -> str:
    """Say why no training query has a tag expression that can be scored; `lost`: how many have no vectors."""
    if not lost:
        return f"no training query{_chosen(cfg)} has a tag expression in the annotation"
    return f"none of the {lost} tag expressions of training queries{_chosen(cfg)} has vectors in {_named(cfg)}"


def _chosen(cfg: DictConfig) -> str:
    chosen = cfg.data.train_partitions
    return "" if chosen is None else f" of data.train_partitions=[{','.join(chosen)}]"


def _named(cfg: DictConfig) -> str:
    """The features as the user names them, or the videos that they are made from."""
    named = {key: cfg.data.get(key) for key in ("features", "videos")}
    return next((f"data.{key}={value}" for key, value in named.items() if value is not None), f"data={cfg.data.kind}")


def lack(cfg: DictConfig, what: str) -> None:
    """Refuse to go on without parts that are asked for, or warn where they are optional."""
    if not cfg.data.optional_parts:
        raise DataError(f"{what}. Extract or import them, leave the setting out, or give data.optional_parts=true")
    log.warning("%s: trained without", what)


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
    period, total = settings.every_n_epochs * trainer.steps_per_epoch, trainer.max_epochs * trainer.steps_per_epoch
    if period >= total:
        log.warning("data.mining.every_n_epochs=%d: the run ends before anything is mined", settings.every_n_epochs)
    source = ModelScores(model, data.store, memory_budget=protocol.memory_budget, group=here.group)
    mode = best_mode(served_modes(source, data.train_part))
    return [
        MineNegatives(
            progress,
            mined,
            lambda: mine(source, data.train_part, mode, settings.top),
            period,
            total,
            here.group,
        )
    ]
