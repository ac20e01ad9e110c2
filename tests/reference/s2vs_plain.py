"""The slow twin of S2VS: the full tensor of all region similarities, NCHW convolutions, no chunks, no masks.

`plain_scores` takes indexed videos [., T, R, D] without padding, all of one length. `one_by_one` takes raw videos of
any lengths, does the whole network on one pair after the other, and so needs no padding at all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.s2vs import S2VS


def plain_scores(network: S2VS, q: Tensor, n: Tensor, extra: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scores, without a base, and range excess [Q, N] of indexed videos and extra maps; both have gradients."""
    full = torch.einsum("aiod,bpjd->abipoj", q, n)
    maps = regions(full, network.symmetric)
    if network.binarization is not None:
        maps = maps / q.shape[-1]
    read = maps[:, :, None]
    if network.extra_maps:
        none = maps.new_zeros((*maps.shape[:2], network.extra_maps, *maps.shape[2:]))
        read = torch.cat([read, none if extra is None else extra], dim=2)
    refined = convolve(network, read.flatten(0, 1))[:, 0]
    excess = (refined.abs() - 1).clamp(min=0).sum(dim=(1, 2))
    scores = frames(refined.clamp(-1, 1), network.symmetric)
    return scores.view(maps.shape[:2]), excess.view(maps.shape[:2])


def regions(full: Tensor, symmetric: bool) -> Tensor:
    """Chamfer over the last two dimensions."""
    forward = full.max(dim=-1).values.mean(dim=-1)
    return (forward + full.max(dim=-2).values.mean(dim=-1)) / 2 if symmetric else forward


def frames(maps: Tensor, symmetric: bool) -> Tensor:
    """The same over frames."""
    return regions(maps, symmetric)


def convolve(network: S2VS, x: Tensor) -> Tensor:
    """The CNN on maps [P, C, T1, T2], before clipping."""
    head = network.head
    for place, layer in enumerate((head.conv1, head.conv2, head.conv3)):
        conv = layer[0] if isinstance(layer, nn.Sequential) else layer
        extra = 1 if head.batch_norm else 0
        if head.pooling:
            x = F.conv2d(x, conv.weight.contiguous(), conv.bias, padding=1 + extra)
        else:
            x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), conv.weight.contiguous(), conv.bias, padding=extra)
        x = layer[1](x) if isinstance(layer, nn.Sequential) else x
        x = F.relu(x)
        if head.pooling and place < 2:
            x = F.max_pool2d(x, 2)
    return F.conv2d(x, head.fconv.weight.contiguous(), head.fconv.bias)


def one_by_one(
    network: S2VS, queries: list[Tensor], database: list[Tensor], extra: list[list[Tensor]] | None = None
) -> tuple[Tensor, Tensor]:
    """Scores and range excess [Q, N] of raw videos [T, R, D]; `extra` holds maps [T1, T2, K] for every pair."""
    sides = [[indexed(network, video) for video in videos] for videos in (queries, database)]
    scores, excess = [], []
    for i, ((x_q, w_q), raw_q) in enumerate(zip(sides[0], queries, strict=True)):
        for j, ((x_n, w_n), raw_n) in enumerate(zip(sides[1], database, strict=True)):
            further = None if extra is None else four(four(extra[i][j]).transpose(0, 1)).permute(2, 1, 0)[None, None]
            score, over = plain_scores(network, four(x_q)[None], four(x_n)[None], further)
            if network.base is not None:
                known = base_score(network, unit(network, raw_q), unit(network, raw_n), w_q, w_n)
                score = known + network.residual_scale * score
            scores.append(score.view(()))
            excess.append(over.view(()))
    shape = (len(queries), len(database))
    return torch.stack(scores).view(shape), torch.stack(excess).view(shape)


def unit(network: S2VS, video: Tensor) -> Tensor:
    """What the base sees."""
    x = video / video.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return x if network.whitening is None else network.whitening(x)


def indexed(network: S2VS, video: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted (or binarised) vectors [T, R, D], and the weight [T] of each frame."""
    x = unit(network, video)
    if network.binarization is not None:
        codes = (x / x.norm(dim=-1, keepdim=True)) @ network.binarization.projection
        return (torch.erf(codes / (2e-6**0.5)) if network.training else codes.sign()), x.new_ones(len(x))
    if network.attention is None:
        return x, x.new_ones(len(x))
    context = network.attention.context_vector.weight[0]
    if network.attention.transform is None:
        weight = ((x @ (context / context.norm())) + 1) / 2
    else:
        weight = torch.sigmoid(torch.tanh(network.attention.transform(x)) @ context)
    return x * weight[..., None], weight.mean(dim=-1)


def four(video: Tensor) -> Tensor:
    """Repeated in turn to four frames, where there are fewer."""
    return video if len(video) >= 4 else torch.cat([video] * 4)[:4]


def base_score(network: S2VS, x_q: Tensor, x_n: Tensor, w_q: Tensor, w_n: Tensor) -> Tensor:
    """The untrained score of two videos of unit vectors, their frames weighed where the network does so."""
    base = network.base
    if getattr(base, "over", "regions") == "frames":
        x_q, x_n = (F.normalize(x.mean(dim=1, keepdim=True), dim=-1) for x in (x_q, x_n))
    maps = torch.einsum("iod,pjd->ipoj", x_q, x_n)
    if network.base_weights:
        maps = maps * (w_q / w_q.mean())[:, None, None, None] * (2 * w_n)[None, :, None, None]
    if type(base).__name__ == "FrameMax":
        return maps.max()
    pooled = maps.flatten(2).max(dim=2).values if base.region_pooling == "max" else regions(maps, False)
    return frames(pooled, False)
