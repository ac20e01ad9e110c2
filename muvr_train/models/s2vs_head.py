"""The convolutional head of ViSiL / S2VS on frame-to-frame maps, with a padding rule that padding cannot change.

Source: ViSiL (arXiv 1908.07410, section 3.3) and S2VS (arXiv 2304.03378). Masks are kept as two vectors, one per side,
because the mask of a map is always their outer product, and so are its pooled forms.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.functional import chamfer_frames

CHANNELS = (32, 64, 128)
Sides = tuple[Tensor, Tensor]


class S2VSHead(nn.Module):
    """3x3 convolutions to 32, 64 and 128 channels with ReLU, 2x2 max-pooling after the first two, 1x1 convolution to 1.

    Args:
        batch_norm: normalise after each 3x3 convolution, which then has no bias and, as in the reference, pads by 2, so
            that the map grows by 2 each time. In train mode padded cells do not enter the statistics.
        pooling: False skips the max-pools and pads by replication, for maps of full resolution.
        mask_pooling: "all": a pooled cell is real only if all cells that it covers are (a padded video equals the
            unpadded one); "any": if one is (the reference's rule).
        extra_maps: further input channels K, whose weights start at 0; the others are those of a head without them.
    """

    def __init__(
        self, batch_norm: bool = False, pooling: bool = True, mask_pooling: str = "all", extra_maps: int = 0
    ) -> None:
        super().__init__()
        if mask_pooling not in ("all", "any"):
            raise ConfigError(f"model.mask_pooling={mask_pooling!r}: must be 'all' or 'any'")
        self.batch_norm, self.pooling, self.mask_pooling = batch_norm, pooling, mask_pooling
        self.conv1, self.conv2, self.conv3 = (
            self._layer(before, after) for before, after in zip((1, *CHANNELS), CHANNELS, strict=False)
        )
        self.fconv = nn.Conv2d(CHANNELS[-1], 1, 1)
        self.extra_maps = extra_maps
        if extra_maps:
            _widen(_convolution(self.conv1), extra_maps)
        self.to(memory_format=torch.channels_last)

    def cell_bytes(self, training: bool) -> int:
        """About how many bytes the layers hold for one cell of a map: at a time, or until the backward pass."""
        cells = (1, 1 / 4, 1 / 16) if self.pooling else (1, 1, 1)
        convolved = [4 * cell * channels for cell, channels in zip(cells, CHANNELS, strict=True)]
        pooled = [0.75 * size for size in convolved[:2]] if self.pooling else convolved  # values and their int64 places
        normalised = [*convolved, *convolved] if self.batch_norm else []
        if training:
            convolved[0] += 8 * self.extra_maps
            return round(sum(convolved) + sum(pooled) + sum(normalised) + max(convolved))
        return round(2 * max(convolved) + max(pooled))

    def _layer(self, before: int, after: int) -> nn.Module:
        conv = nn.Conv2d(before, after, 3, bias=not self.batch_norm)
        return nn.Sequential(conv, nn.BatchNorm2d(after)) if self.batch_norm else conv

    def forward(self, maps: Tensor, sides: Sides | None = None) -> tuple[Tensor, Sides | None]:
        """Refine maps.

        Args:
            maps: float [P, 1 + K, T1, T2], both sides at least 4 long; the channels of extra maps may be left out, and
                then count as 0.
            sides: real query frames bool [P, T1] and real target frames bool [P, T2]; None = all are real.

        Returns:
            Maps float32 [P, 1, T1', T2'] before any clipping, 0 in masked cells, and the sides that belong to them.
        """
        x = maps if sides is None else maps.masked_fill(~_cells(sides), 0.0)
        x = x.contiguous(memory_format=torch.channels_last)
        for position, layer in enumerate((self.conv1, self.conv2, self.conv3)):
            x, sides = self._convolve(layer, x, sides, position < 2)
            if self.pooling and position < 2:
                # before the ReLU, which has then a quarter of the cells; of masked cells only those count here that
                # share a pooled cell with real ones, and under "all" none do
                x = _max_pool(x if self.mask_pooling == "all" else _zero_padding(x, sides))
                sides = None if sides is None else (self._pool_mask(sides[0]), self._pool_mask(sides[1]))
            x = _zero_padding(x, sides).relu_()
        return _zero_padding(self.fconv(x).float(), sides), sides

    def _convolve(self, layer: nn.Module, x: Tensor, sides: Sides | None, pooled: bool) -> tuple[Tensor, Sides | None]:
        odd = x.shape[2] % 2, x.shape[3] % 2
        conv = _convolution(layer)
        weight = conv.weight[:, : x.shape[1]]  # without extra maps only the first channel is there
        if pooled and any(odd) and self.pooling and self.mask_pooling == "all" and not self.batch_norm:
            x = F.pad(x, (1, 1 - odd[1], 1, 1 - odd[0]))  # the pooling would drop an odd last row or column
            return F.conv2d(x, weight, conv.bias), sides
        extra = 1 if self.batch_norm else 0
        if self.pooling:
            x = F.conv2d(x, weight, conv.bias, padding=1 + extra)
        else:
            x = F.conv2d(_replicate_edges(x, sides), weight, conv.bias, padding=extra)
        if not isinstance(layer, nn.Sequential):
            return x, sides
        grown = None if sides is None else (_grow(sides[0]), _grow(sides[1]))
        return self._normalise(layer[1], x, grown), grown

    def _normalise(self, norm: nn.Module, x: Tensor, sides: Sides | None) -> Tensor:
        if sides is None or not self.training:
            return torch.as_tensor(norm(x))
        real = _cells(sides)[:, 0]
        x = x.permute(0, 2, 3, 1)
        values = norm(x[real].T[None, :, :, None])[0, :, :, 0].T
        return torch.zeros_like(x, dtype=values.dtype).masked_scatter(real[..., None], values).permute(0, 3, 1, 2)

    def _pool_mask(self, mask: Tensor) -> Tensor:
        half = mask.shape[1] // 2
        pairs = mask[:, : half * 2].reshape(-1, half, 2)
        return pairs.all(dim=2) if self.mask_pooling == "all" else pairs.any(dim=2)


def refine(head: S2VSHead, maps: Tensor, sides: Sides | None) -> tuple[Tensor, Sides | None, Tensor]:
    """Maps [P, C, T1, T2] refined and clipped to [-1, 1]: [P, T1', T2']; their sides, and summed excess [P]."""
    refined, sides = head(maps, sides)
    refined = refined[:, 0]
    excess = (F.relu(refined - 1) + F.relu(-1 - refined)).sum(dim=(1, 2))
    return F.hardtanh(refined), sides, excess


def score_maps(head: S2VSHead, maps: Tensor, sides: Sides | None, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Scores [P] of maps [P, C, T1, T2]: Chamfer over frames of what the head makes of them; and the excess [P]."""
    refined, sides, excess = refine(head, maps, sides)
    rows, columns = (None, None) if sides is None else sides
    scores = chamfer_frames(refined, rows, columns)
    if symmetric:
        scores = (scores + chamfer_frames(refined.transpose(-1, -2), columns, rows)) / 2
    return scores, excess


def _convolution(layer: nn.Module) -> nn.Conv2d:
    return cast(nn.Conv2d, layer[0] if isinstance(layer, nn.Sequential) else layer)


def _widen(conv: nn.Conv2d, more: int) -> None:
    """Add input channels of zero weight."""
    zeros = conv.weight.new_zeros((conv.out_channels, more, *conv.kernel_size))
    conv.weight = nn.Parameter(torch.cat([conv.weight.detach(), zeros], dim=1))
    conv.in_channels += more


def _max_pool(x: Tensor) -> Tensor:
    """2 x 2 max-pooling; without a gradient on a CPU 2.6x as fast as torch's, which notes the places of the maxima."""
    if torch.is_grad_enabled() or x.device.type != "cpu":
        return F.max_pool2d(x, 2)
    height, width = (size // 2 * 2 for size in x.shape[2:])
    rows = torch.maximum(x[:, :, 0:height:2, :width], x[:, :, 1:height:2, :width])
    return torch.maximum(rows[..., 0::2], rows[..., 1::2])


def _cells(sides: Sides) -> Tensor:
    return sides[0][:, None, :, None] & sides[1][:, None, None, :]


def _zero_padding(x: Tensor, sides: Sides | None) -> Tensor:
    """Set masked cells to 0, in place: no layer before it needs its own output in the backward pass."""
    return x if sides is None else x.masked_fill_(~_cells(sides), 0.0)


def _grow(mask: Tensor) -> Tensor:
    """Mask [P, T] of real frames -> [P, T + 2] after a padding by 1 on each side of the real part."""
    return F.max_pool1d(F.pad(mask.float(), (2, 2))[:, None], 3, stride=1)[:, 0] > 0


def _replicate_edges(x: Tensor, sides: Sides | None) -> Tensor:
    """Pad by 1 with copies of the edge; the edge of a padded video (real frames first) is its last real frame."""
    if sides is None:
        return F.pad(x, (1, 1, 1, 1), mode="replicate")
    for dim, mask in ((2, sides[0]), (3, sides[1])):
        last = mask.sum(dim=1, keepdim=True) - 1
        index = torch.arange(x.shape[dim], device=x.device)[None].minimum(last.clamp(min=0))
        shape = [len(x), 1, 1, 1]
        shape[dim] = x.shape[dim]
        x = x.gather(dim, index.view(shape).expand(x.shape))
    return _zero_padding(F.pad(x, (1, 1, 1, 1), mode="replicate"), (_grow(sides[0]), _grow(sides[1])))
