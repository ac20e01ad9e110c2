"""Videos that a query is compared with to learn how high its scores are in general."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import Retriever
from muvr_train.types import EncodedDatabase, Tokens


@dataclass(frozen=True)
class Background:
    """Features of background videos, kept with the calibration so that it needs no store to be used.

    Attributes:
        ids: M ids.
        video: their tokens.
        fine: the tokens that the text part looks at, where the store has them apart.
    """

    ids: tuple[str, ...]
    video: Tokens
    fine: Tokens | None = None

    @classmethod
    def read(cls, store: FeatureStore, ids: Sequence[str]) -> Background:
        """Read videos from a store."""
        if not ids:
            raise DataError(f"{store.path} holds no video for the background of score normalisation")
        fine = store.tokens(ids, "fine").to("cpu") if store.dims.fine_dim is not None else None
        return cls(tuple(ids), store.tokens(ids).to("cpu"), fine)

    def encoded(self, model: Retriever, device: torch.device, start: int, stop: int) -> EncodedDatabase:
        """Encode some of the videos with a model."""
        fine = None if self.fine is None else self.fine[start:stop].to(device)
        return model.encode_database(self.video[start:stop].to(device), fine)

    def state(self) -> dict[str, Tensor]:
        """Give plain tensors: real frames only, in half precision where that loses nothing, and the ids as UTF-8."""
        state = {"ids": torch.tensor(list(json.dumps(self.ids).encode()), dtype=torch.uint8)}
        for name, tokens in (("video", self.video), ("fine", self.fine)):
            if tokens is not None:
                x = tokens.x[tokens.mask]
                state[name] = x.half() if bool((x.half().float() == x).all()) else x
                state[f"{name}_length"] = tokens.mask.sum(dim=1)
        return state

    @classmethod
    def from_state(cls, state: dict[str, Tensor]) -> Background:
        """Build it from `state()`."""
        ids = tuple(json.loads(bytes(state["ids"].tolist()).decode()))
        packed = {
            name: Tokens.pack(list(torch.split(state[name].float(), state[f"{name}_length"].tolist())))
            for name in ("video", "fine")
            if name in state
        }
        return cls(ids, packed["video"], packed.get("fine"))
