"""The FLOPs that the maths of S2VS needs.

A multiplication and an addition count as two. What is computed a second time in a backward pass counts as time, not as
work.
"""

from __future__ import annotations

from dataclasses import dataclass

from muvr_train.models.s2vs_head import CHANNELS


@dataclass(frozen=True)
class S2VSWork:
    """FLOPs of S2VS without batch norm for Q queries and N database videos of T frames, R regions and D numbers.

    Attributes:
        itself: the queries are the database: videos are indexed once, and of the products, which are symmetric, every
            pair is needed once; the convolutions are not symmetric.
    """

    queries: int
    database: int
    frames: int
    regions: int
    dim: int
    itself: bool = False

    @property
    def attention(self) -> int:
        """The linear layer and the context vector."""
        videos = self.queries + (0 if self.itself else self.database)
        return 2 * videos * self.frames * self.regions * self.dim * (self.dim + 1)

    @property
    def products(self) -> int:
        """Every region of every frame against every other."""
        pairs = self.queries * (self.queries + 1) // 2 if self.itself else self.queries * self.database
        return 2 * pairs * (self.frames * self.regions) ** 2 * self.dim

    @property
    def convolutions(self) -> int:
        """The head: three 3 x 3 convolutions, two max-pools between them, and the last 1 x 1 convolution.

        Of an odd row or column, which a max-pool drops, nothing is counted.
        """
        half, quarter = self.frames // 2, self.frames // 4
        per_pair = 2 * CHANNELS[-1] * quarter**2
        for before, after, side in zip((1, *CHANNELS), CHANNELS, (2 * half, 2 * quarter, quarter), strict=False):
            per_pair += 2 * 9 * before * after * side**2
        return self.queries * self.database * per_pair

    @property
    def forward(self) -> int:
        """Of scoring."""
        return self.attention + self.products + self.convolutions

    @property
    def step(self) -> int:
        """Forward and backward: gradients of both factors of every product cost as much as the product each.

        The first factor of the attention, the features, needs no gradient.
        """
        return 2 * self.attention + 3 * (self.products + self.convolutions)
