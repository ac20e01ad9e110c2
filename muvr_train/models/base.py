"""The face that every network which compares videos with videos has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError, DataError
from muvr_train.types import Tokens
from muvr_train.whitening import Whitening

WORK_SHARE = 4
"""One part in so many of `memory_budget` is for what scoring computes with in inference."""
EXTRAS = frozenset({"range_excess", "self"})
"""What `similarity_with_extras` can give besides the scores."""


class SimilarityNetwork(nn.Module, ABC):
    """Compares videos with videos: `index` once per video, then `similarity` between any two sets.

    Args:
        dim: feature size D, dictated by the feature store.
        regions: regions R per frame, dictated by the feature store.
        whiten: False; True = PCA-whitening that keeps the size; or the number of leading components kept. A number
            above `dim` is clipped to `dim`, so that one config fits any store.

    Attributes:
        range: lowest and highest possible score of `similarity`.
        index_dim: size of the vectors after whitening.
        memory_budget: bytes that training may hold for scoring a batch, beside the indexed videos, which exist as a
            whole, and their gradient; in inference a quarter of it is for the work space, see `work_bytes`, and the
            rest for tokens and scores. None = what is fast. Changes no score by more than rounding.
        product_dtype: torch.bfloat16 or torch.float16 multiplies frames rounded to it where nothing is trained, with
            sums and results in float32; None = all in float32.
    """

    range: tuple[float, float] = (-1.0, 1.0)
    memory_budget: int | None = None
    product_dtype: torch.dtype | None = None

    def __init__(self, dim: int, regions: int = 1, whiten: bool | int = False) -> None:
        super().__init__()
        if not isinstance(whiten, bool) and whiten < 1:
            raise ConfigError(f"model.whiten={whiten}: must be false, true or a number of components >= 1")
        self.dim, self.regions = dim, regions
        self.whitening: Whitening | None = None
        if whiten is not False:
            self.whitening = Whitening(dim, None if whiten is True else int(whiten))
        self.index_dim = dim if self.whitening is None else self.whitening.components

    @property
    def needs_fit(self) -> bool:
        """True while `fit` has something left to learn."""
        return self.whitening is not None and not bool(self.whitening.fitted)

    def fit(self, batches: Iterable[Tokens]) -> None:
        """Learn the whitening from tokens of the training split (masked frames excluded); does nothing without one."""
        if self.whitening is not None:
            self.whitening.fit(self._real_vectors(batches))

    def _real_vectors(self, batches: Iterable[Tokens]) -> Iterator[Tensor]:
        device = next(iter(self.buffers())).device
        for batch in batches:
            yield (
                self._checked(batch)
                .to(device)
                .to(dtype=torch.float32)
                .normalized()
                .x[batch.mask.to(device)]
                .flatten(0, 1)
            )

    def index(self, tokens: Tokens) -> Tokens:
        """The network's own tokens of videos: L2-normalised, whitened, then `_index` (padded frames hold zeros).

        Raises:
            DataError: if the feature size is not the one that the network was built for, or a whitening is unfitted.
        """
        tokens = self._checked(tokens).to(dtype=torch.float32).normalized()
        if self.whitening is not None:
            tokens = replace(tokens, x=self.whitening(tokens.x))
        if not bool(tokens.mask.all()):
            tokens = replace(tokens, x=tokens.x.masked_fill(~tokens.mask[:, :, None, None], 0.0))
        return self._index(tokens)

    def _checked(self, tokens: Tokens) -> Tokens:
        if tokens.x.shape[-1] != self.dim:
            raise DataError(
                f"the features have {tokens.x.shape[-1]} dimensions but the model was built for {self.dim}: "
                "use the feature store that the model was trained on, or train a new model on this store"
            )
        return tokens

    def _index(self, tokens: Tokens) -> Tokens:
        """Steps of the network on normalised (and whitened) tokens; by default none."""
        return tokens

    @abstractmethod
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores float32 [Q, N] in `range`, higher is more similar; both arguments are `index()` outputs.

        Args:
            q: queries.
            n: database videos.
            extra_maps: further frame-to-frame maps [Q, N, K, T1, T2] for networks that read several channels.
        """

    def similarity_with_extras(
        self, q: Tokens, n: Tokens, wanted: frozenset[str], extra_maps: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Scores as `similarity` gives them, and what losses ask for.

        `range_excess` [Q, N]: how far the map lies outside [-1, 1] before clipping, summed over the map (0 for networks
        without clipping). `self` [Q]: the score of each query with itself, on the scale of `similarity`.
        """
        scores = self.similarity(q, n, extra_maps)
        extras: dict[str, Tensor] = {}
        if "range_excess" in wanted:
            extras["range_excess"] = torch.zeros_like(scores)
        if "self" in wanted:
            extras["self"] = self.pair_similarity(q, q)
        return scores, extras

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i, on the scale of `similarity` (this default scores one pair at a time)."""
        rows = [self.similarity(q[i : i + 1], n[i : i + 1])[0] for i in range(len(q))]
        return torch.cat(rows) if rows else q.x.new_zeros(0)

    @abstractmethod
    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """The map behind the score, for pictures: [Q, N, T1', T2'], 0 where either side is padded."""

    @property
    def scoring_dtype(self) -> torch.dtype | None:
        """`product_dtype` in eval mode; training multiplies as autocast says."""
        return None if self.training else self.product_dtype

    @property
    def work_bytes(self) -> int:
        """Bytes of `memory_budget` that inference may take beside tokens and scores; 0 without a budget."""
        return 0 if self.memory_budget is None else self.memory_budget // WORK_SHARE

    def least_budget(self, frames_q: int, frames_n: int) -> int:
        """What `memory_budget` must be at least for inference to compare videos of so many frames; 0 without one."""
        del frames_q, frames_n
        return 0

    def products_at_once(self, fast: int) -> int:
        """Bound on the entries of one product of frames: `fast`, or fewer where a budget leaves less."""
        return fast if self.memory_budget is None else max(1, min(fast, self.work_bytes // 12))

    @property
    def divisible(self) -> bool:
        """Whether the score of a pair depends on nothing else in its batch, so that a batch may be split."""
        return True

    def training_bytes(self, q: Tokens, n: Tokens) -> tuple[int, int]:
        """About what scoring a batch holds in training.

        Returns:
            Bytes for each pair of a query and a database video until the backward pass, and bytes needed besides. A
            network that can compute its scores again in the backward pass counts only what it then still holds.
        """
        (t1, r1), (t2, r2) = q.x.shape[1:3], n.x.shape[1:3]
        return 16 * t1 * r1 * t2 * r2, 0

    def _no_extra_maps(self, extra_maps: Tensor | None) -> None:
        if extra_maps is not None:
            raise ConfigError(f"model {type(self).__name__} cannot read extra maps: choose a fusion head without them")
