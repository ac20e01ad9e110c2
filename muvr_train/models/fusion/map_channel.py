"""Hybrid fusion: the network that reads frame-to-frame maps also reads where in the target the text is true."""

from __future__ import annotations

from torch import Tensor

from muvr_train.models.fusion.base import PartScorers
from muvr_train.models.fusion.text_head import TextHead, aligned, frame_cosines
from muvr_train.types import EncodedDatabase, EncodedQuery


class MapChannel(TextHead):
    """A second input channel of S2VS: m[t1, t2] = the largest cosine of the query's words W t with target frame t2.

    The row is the same for all query frames t1, and 0 for queries without text. The network's weights of that channel
    start at 0, so the untrained head equals the mean. The frames are those that the network compares; of a finer grid,
    which the text part looks at, training does not edit the frames with them. The score so made is fused with the text
    part as by `WeightedFusion`. Needs `model=s2vs`. No published source.

    Args:
        dims: sizes of the feature store.

    Raises:
        ConfigError: a store without texts.
    """

    extra_maps = 1

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: PartScorers) -> dict[str, Tensor]:
        """Part scores [Q, N]; that of the video has seen the text."""
        pair = self.pair(query.query)
        if pair is None:
            return super().compare(query, database, scorers)
        row = frame_cosines(pair, aligned(database.raw, database.index))
        video = scorers.video(query, database, row[:, :, None, None])  # the same for all frames of the query
        scores = {"video": video, "text": scorers.text(query, database)}
        return {name: value for name, value in scores.items() if value is not None}

    def scoring_bytes(self, queries: int, frames: int) -> int:
        """The map has one row for all frames of a query; see the base class."""
        return super().scoring_bytes(queries, min(frames, 1))
