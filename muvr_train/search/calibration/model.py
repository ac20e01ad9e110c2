"""A retriever whose features pass through calibration steps first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.retriever import Retriever
from muvr_train.search.calibration.base import CalibrationStep
from muvr_train.types import EncodedDatabase, EncodedQuery, Masked, QueryBatch, Tokens

M = TypeVar("M", bound=Masked)


def keeps_its_input(network: SimilarityNetwork) -> bool:
    """Whether a network has weights or a whitening of its own, which expect the features as they are in the store."""
    return network.whitening is not None or any(True for _ in network.parameters())


class CalibratedRetriever(Retriever):
    """The same network, text part and head, behind steps on features.

    The steps change three things: "video", the tokens that the network compares, unless `keeps_its_input`; "frames",
    the database tokens that the text part looks at; "text", the texts of queries.

    Args:
        inner: shares its modules with this one.
        steps: fitted steps on features, in order.
    """

    def __init__(self, inner: Retriever, steps: Sequence[CalibrationStep]) -> None:
        nn.Module.__init__(self)
        self.network, self.head, self.dims, self.text_part = inner.network, inner.head, inner.dims, inner.text_part
        self.register_buffer("anchor", inner.get_buffer("anchor"), persistent=False)
        self.steps = tuple(steps)
        self.train(inner.training)

    def encode_query(self, query: QueryBatch, plain: bool = True) -> EncodedQuery:
        """Encode queries with calibrated videos and regions, texts and tags."""

        def own(part: M | None, kind: str) -> M | None:
            return None if part is None else self.calibrated(part, kind)

        video, region = own(query.video, "video"), own(query.region, "video")
        text, tags = own(query.text, "text"), own(query.tags, "text")
        return super().encode_query(replace(query, video=video, text=text, tags=tags, region=region), plain)

    def encode_database(self, video: Tokens, fine: Tokens | None = None) -> EncodedDatabase:
        """Encode database videos; the network and the text part each get their own calibrated tokens."""
        frames = self.calibrated(video if fine is None else fine, "frames")
        return super().encode_database(self.calibrated(video, "video"), frames)

    def calibrated(self, tokens: M, part: str) -> M:
        """L2-normalised tokens after all steps; padded places hold zeros.

        Raises:
            ConfigError: a step changes the shape.
        """
        if part == "video" and keeps_its_input(self.network):
            return tokens
        tokens = tokens.to(dtype=torch.float32).normalized()
        x: Tensor = tokens.x
        for step in self.steps:
            x = step.features(x, part)
            if x.shape != tokens.x.shape:
                raise ConfigError(
                    f"calibration step {type(step).__name__} turned {part} features of shape {tuple(tokens.x.shape)} "
                    f"into {tuple(x.shape)}; features() must keep the shape"
                )
        padded = ~tokens.mask.view(*tokens.mask.shape, *(1,) * (x.ndim - 2))
        return replace(tokens, x=x.masked_fill(padded, 0.0))
