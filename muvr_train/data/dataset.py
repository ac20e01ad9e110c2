"""Training batches from a store: number n in, `Batch` out, the same on every machine and in every process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from muvr_train.data.augment import Clip, FeatureAugment, Frames, View, share_piece
from muvr_train.data.batch import Batch, load_queries
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.data.part_dropout import PartDropout
from muvr_train.data.soft_mixing import SoftMixing
from muvr_train.data.views import load_views, plan_views
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.processes import SINGLE, Group
from muvr_train.types import QueryBatch, Tokens

INTROS = 4


class SupervisedBatches(Dataset[Batch]):
    """Loads what a `OneToManyPlan` names; every video comes in a random stored view and with feature-space edits.

    Args:
        store: cached features.
        plan: number to batch.
        augment: the edits.
        group: the processes that share each batch.
        dropout: parts of queries that are hidden.
        regions: also load what is inside the marked regions of queries (without edits).
    """

    def __init__(
        self,
        store: FeatureStore,
        plan: OneToManyPlan,
        augment: FeatureAugment,
        group: Group = SINGLE,
        dropout: PartDropout | None = None,
        regions: bool = False,
    ) -> None:
        self.store, self.plan, self.augment, self.group = store, plan, augment, group
        self.dropout, self.regions = dropout or PartDropout(), regions
        self.pool = sorted({video for partition in plan.benchmark.partitions for video in partition.database})

    def __getitem__(self, n: int) -> Batch:
        """Load batch `n`, counted from the start of training."""
        plan = self.plan(n)
        rows, columns = self.group.share(len(plan.queries)), self.group.share(len(plan.database))
        own, shown = plan.queries[rows], plan.database[columns]
        videos = self._views([query.video_id for query in own], n, 0, rows)
        expressions = plan.expressions[rows] if self.plan.tag_rows else None
        queries = load_queries(self.store, own, videos, expressions=expressions, regions=self.regions)
        database = self._views(shown, n, 1, columns)
        fine = self.store.tokens(shown, "fine") if self.store.dims.fine_dim is not None else None
        relevance, asked = torch.from_numpy(plan.relevance), tuple(query.id for query in plan.queries)
        if self.dropout:
            rolls = self.dropout.rolls(self.plan.seed, n, len(asked))
            queries = self.dropout.hide(queries, rolls[rows])
            relevance = self.dropout.judged(relevance, plan.expressions, rolls)
        of_tags = None if plan.tag_relevance is None else torch.from_numpy(plan.tag_relevance)
        return Batch(queries, database, fine, plan.database, relevance, asked, of_tags)

    def _views(self, ids: Sequence[str], n: int, side: int, rows: slice) -> Tokens:
        chances = item_chances(self.plan.seed, n, side, rows)
        return load_views(self.store, plan_views(self.store, ids, self.augment, self.pool, chances))


class SelfSupervisedBatches(Dataset[Batch]):
    """Pairs of views of unlabelled videos: a weak and a strong one of each, all against all (S2VS).

    Args:
        store: cached features; edited stored views (streams `view1` ...) are drawn for the strong side.
        videos: ids of the training videos.
        pairs: videos in a batch.
        weak: edits of the first view.
        strong: edits of the second view.
        seed: all batches follow from it.
        shared_intros: probability with which a video begins with one of `INTROS` pieces that unrelated videos of the
            batch share: title cards of the store (stream "cards"), or where it has none, parts of other videos.
        group: the processes that share each batch.
        soft_mixing: probability with which another video of the batch is blended into a strong view, which then matches
            the views of both partly (see `data.soft_mixing`).
    """

    def __init__(
        self,
        store: FeatureStore,
        videos: Sequence[str],
        pairs: int,
        weak: FeatureAugment,
        strong: FeatureAugment,
        seed: int = 0,
        shared_intros: float = 0.0,
        group: Group = SINGLE,
        soft_mixing: float = 0.0,
    ) -> None:
        if len(videos) < 2:
            raise DataError(f"self-supervised training needs at least 2 training videos, got {len(videos)}")
        self.store, self.videos, self.weak, self.strong, self.seed = store, sorted(videos), weak, strong, seed
        self.pairs = min(pairs, len(videos))
        self.shared_intros, self.group, self.soft_mixing = shared_intros, group, soft_mixing
        self.cards = sorted(store.ids("cards")) if "cards" in store.streams else []

    def __getitem__(self, n: int) -> Batch:
        """Load batch `n`: 2 x pairs videos, each a query and a database video."""
        passed, place = divmod(n, max(1, len(self.videos) // self.pairs))
        order = np.random.default_rng([self.seed, 0, passed]).permutation(len(self.videos))
        ids = [self.videos[i] for i in order[place * self.pairs : (place + 1) * self.pairs]]
        names, pairs = tuple(ids + ids), len(ids)
        own = self.group.share(len(names))
        mixing = SoftMixing.draw(pairs, self.soft_mixing, np.random.default_rng([self.seed, 12, n]))
        views: list[View] = []
        for side, augment in enumerate((self.weak, self.strong)):
            rows = slice(max(own.start - side * pairs, 0), min(max(own.stop - side * pairs, 0), pairs))
            chances = item_chances(self.seed, n, side, rows)
            views += plan_views(self.store, ids[rows], augment, self.videos, chances, stored_views=side == 1)
        views = [
            mixing.mix(view, row - pairs, ids, self.store.length) for row, view in enumerate(views, start=own.start)
        ]
        if self.shared_intros:
            pieces = self._pieces(n)
            views = [
                share_piece(view, pieces, self.shared_intros, (self.weak if row < len(ids) else self.strong).max_frames)
                for row, view in enumerate(views, start=own.start)
            ]
        tokens = load_views(self.store, views)
        present = {"video": torch.ones(len(views), dtype=torch.bool), "text": torch.zeros(len(views), dtype=torch.bool)}
        relevance = torch.from_numpy(mixing.relevance())
        relevance.fill_diagonal_(-1.0)
        return Batch(QueryBatch(names[own], tokens, None, present), tokens, None, names, relevance, names)

    def _pieces(self, n: int) -> list[tuple[Clip, Frames]]:
        """What unrelated videos of batch `n` may begin with."""
        rng = np.random.default_rng([self.seed, 3, n])
        return [self._piece(rng) for _ in range(INTROS)]

    def _piece(self, rng: np.random.Generator) -> tuple[Clip, Frames]:
        if self.cards:
            card = self.cards[int(rng.integers(len(self.cards)))]
            return ("cards", card), np.arange(self.store.length(card, "cards"))
        video = self.videos[int(rng.integers(len(self.videos)))]
        count = self.store.length(video)
        length = min(int(rng.integers(2, 5)), count)
        start = int(rng.integers(0, count - length + 1))
        return ("video", video), np.arange(start, start + length)


def item_chances(seed: int, n: int, side: int, rows: slice) -> list[np.random.Generator]:
    """One generator for each of some rows of a side of batch `n`: a share draws what the whole batch draws there."""
    words = ((seed, 2, n, side, row) for row in range(rows.start, rows.stop))
    return [np.random.default_rng(np.array(word, dtype=np.uint32)) for word in words]  # a list takes twice as long
