"""The checks catch what breaks in training alone, blank videos, and what teaches nothing or the wrong way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.conformance.assertions import training_mode
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.testing import check_fusion_head, check_network
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, Tags, Tokens

DIMS = [StoreDims(regions=1, dim=16, text_dim=16)]


class Combined(WeightedFusion):
    """What the fused scores become is left to `change`."""

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return self.change(super().combine(parts, query), query)

    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        del query
        return scores


class TrainMean(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return scores - scores.mean(0, keepdim=True) if self.training else scores


class TrainBatchStatistic(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return scores - scores.mean() if self.training else scores


class BatchNormTrain(Combined):
    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.norm = nn.BatchNorm1d(1)

    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return self.norm(scores.flatten()[:, None]).view_as(scores)


class TrainMissing(FusionHead):
    """A missing part counts as 0 in train mode."""

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return torch.stack(list(parts.values())).mean(0) if self.training else super().combine(parts, query)


class TrainNegative(Combined):
    """Learns the reverse of what is evaluated."""

    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return -scores if self.training else scores


class TrainNoise(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return F.dropout(scores, 0.5, self.training)


class DropsScores(Combined):
    """Sound: dropout as a module."""

    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.drop = nn.Dropout(0.5)

    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return self.drop(scores)


class UsesIds(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return scores + torch.tensor([0.01 * len(name) for name in query.ids])[:, None]


class Negative(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return -scores


class Constant(Combined):
    def change(self, scores: Tensor, query: QueryBatch) -> Tensor:
        return scores * 0 + sum(1e-3 * parameter.sum() for parameter in self.parameters())


class DetachVideo(WeightedFusion):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine({k: v.detach() if k == "video" else v for k, v in parts.items()}, query)


class DetachText(WeightedFusion):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine({k: v.detach() if k == "text" else v for k, v in parts.items()}, query)


class DetachParts(WeightedFusion):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine({k: v.detach() for k, v in parts.items()}, query)


class DetachPrepare(WeightedFusion):
    def prepare(self, query: QueryBatch) -> QueryBatch:
        return query if query.video is None else replace(query, video=replace(query.video, x=query.video.x.detach()))


class DetachNetworkOnly(DetachVideo):
    """Reads raw frames as well, so that gradients reach the tokens, but not the network."""

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: object) -> dict[str, Tensor]:
        parts = super().compare(query, database, scorers)
        if query.query.video is None:
            return parts
        raw = Chamfer(self.dims.dim, self.dims.regions).similarity(query.query.video, database.raw)
        raw = raw.masked_fill(torch.isneginf(raw), 0.0)
        return {**parts, "video": parts["video"].detach() + raw - raw.detach()}

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return WeightedFusion.combine(self, parts, query)


class BlankIsNaN(WeightedFusion):
    """A part of its own, of a mean over no frame."""

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: object) -> dict[str, Tensor]:
        count = database.raw.mask.sum(1)
        return {name: value + 0 * (count / count) for name, value in super().compare(query, database, scorers).items()}


class DropsTags(WeightedFusion):
    def tag_scores(self, cosines: Tensor, tags: Tags) -> Tensor:
        return super().tag_scores(cosines, tags) * 0 + self.tag_threshold * 0


class NegatesTags(WeightedFusion):
    def tag_scores(self, cosines: Tensor, tags: Tags) -> Tensor:
        return -(tags.sign.abs()[:, :, None] * cosines).sum(1)


class AveragesPaddedTags(WeightedFusion):
    def tag_scores(self, cosines: Tensor, tags: Tags) -> Tensor:
        return (tags.sign[:, :, None] * cosines).mean(1) - self.tag_threshold


HEADS = [
    (TrainMean, "in train mode: depends on which other queries are in the batch"),
    (TrainBatchStatistic, "in train mode: depends on which other queries are in the batch"),
    (BatchNormTrain, "in train mode: depends on which other queries are in the batch"),
    (TrainMissing, "in train mode: a missing (video|text) has a vote"),
    (TrainNoise, "in train mode: is random even without dropout"),
    (TrainNegative, "in train mode: scores go the other way than in eval mode, with a correlation of -"),
    (UsesIds, "depends on the ids of the queries"),
    (Negative, "higher must be more similar"),
    (Constant, "higher must be more similar"),
    (DetachVideo, "training cannot reach the query videos"),
    (DetachText, "training cannot reach the query texts"),
    (DetachParts, "training cannot reach the query"),
    (DetachPrepare, "training cannot reach the query videos"),
    (DetachNetworkOnly, "the similarity network cannot learn: its scores are detached"),
    (BlankIsNaN, "blank video|without a real frame"),
    (DropsTags, "the gradient of tag_weight is 0 everywhere"),
    (NegatesTags, "no gradient reaches the parameter tag_threshold"),
    (AveragesPaddedTags, "depends on padding"),
]


@pytest.mark.parametrize(("head", "message"), HEADS, ids=lambda value: getattr(value, "__name__", ""))
def test_heads(head, message):
    with pytest.raises(AssertionError, match=f"{head.__name__} on .*({message})"):
        check_fusion_head(head, dims=DIMS)


def test_a_sign_to_be_learned_and_dropout_are_allowed():
    check_fusion_head(Negative, dims=DIMS, direction=False)
    check_fusion_head(DropsScores, dims=DIMS)
    with pytest.raises(AssertionError, match=r"Constant on .*training cannot reach the query videos"):
        check_fusion_head(Constant, dims=DIMS, direction=False)


def test_train_mode_is_left_as_it_was():
    module = nn.Sequential(nn.Dropout(0.3), nn.MultiheadAttention(4, 1, dropout=0.2), nn.BatchNorm1d(2)).eval()
    module[0].train()
    with training_mode(module):
        assert module[0].p == module[1].dropout == 0
        assert module[1].training
        module[2](torch.randn(4, 2))
    assert (module[0].p, module[1].dropout) == (0.3, 0.2)
    assert [part.training for part in module] == [True, False, False]
    assert module[2].running_mean.tolist() == [0, 0]


class TrainMeanNetwork(Chamfer):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        scores = super().similarity(q, n, extra_maps)
        return scores - scores.mean(0, keepdim=True) if self.training else scores


class TrainNegativeNetwork(Chamfer):
    def compare(self, scores: Tensor) -> Tensor:
        return torch.where(torch.isneginf(scores), scores, -scores) if self.training else scores

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return self.compare(super().similarity(q, n, extra_maps))

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        return self.compare(super().pair_similarity(q, n))


class BatchNormNetwork(TrainMeanNetwork):
    """Sound: says that its batches cannot be divided in training."""

    @property
    def divisible(self) -> bool:
        return not self.training

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        scores = Chamfer.similarity(self, q, n, extra_maps)
        centre = scores.masked_fill(torch.isneginf(scores), 0).mean()
        return scores - centre if self.training else scores


class DetachIndex(Chamfer):
    def _index(self, tokens: Tokens) -> Tokens:
        tokens = super()._index(tokens)
        return replace(tokens, x=tokens.x.detach())


class NegativeNetwork(Chamfer):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        scores = super().similarity(q, n, extra_maps)
        return torch.where(torch.isneginf(scores), scores, -scores)


class ZeroMap(Chamfer):
    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        return torch.zeros(len(q), len(n), 1, 1)


NETWORKS = [
    (TrainNegativeNetwork, "in train mode: scores go the other way than in eval mode, with a correlation of -1.00"),
    (TrainMeanNetwork, "in train mode: depends on which other queries are in the batch"),
    (DetachIndex, "detached"),
    (NegativeNetwork, "higher must be more similar"),
    (ZeroMap, "similarity_map is 0 everywhere"),
]


@pytest.mark.parametrize(("network", "message"), NETWORKS, ids=lambda value: getattr(value, "__name__", ""))
def test_networks(network, message):
    with pytest.raises(AssertionError, match=f"{network.__name__} on .*({message})"):
        check_network(network, sizes=[(16, 1)])


def test_a_network_with_batch_norm_is_no_mistake():
    check_network(BatchNormNetwork, sizes=[(16, 1)])
