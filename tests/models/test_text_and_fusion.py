"""The text part and the fusion heads, by hand-worked values."""

from __future__ import annotations

import math

import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.text import TextPart
from muvr_train.types import QueryBatch, StoreDims, TextTokens, Tokens

DIMS = StoreDims(regions=1, dim=4, text_dim=4)


def unit_tokens(*lengths: int, regions: int = 2, dim: int = 4, seed: int = 0) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    return Tokens.pack([torch.randn(n, regions, dim, generator=generator) for n in lengths]).normalized()


def texts(*lengths: int, dim: int = 4, seed: int = 1) -> TextTokens:
    generator = torch.Generator().manual_seed(seed)
    return TextTokens.pack([torch.randn(n, dim, generator=generator) for n in lengths]).normalized()


def cosines(part: TextPart, text: TextTokens, video: Tokens) -> list[list[torch.Tensor]]:
    mapped = torch.nn.functional.normalize(part.projection(text.x), dim=-1)
    return [
        [(mapped[i, text.mask[i]] @ video.x[j, video.mask[j]].flatten(0, 1).T).flatten() for j in range(len(video))]
        for i in range(len(text))
    ]


def test_untrained_text_is_the_maximum():
    part = TextPart(4, 4).eval()
    text, video = texts(1, 3), unit_tokens(2, 5, 1)
    expected = torch.tensor([[float(c.max().detach()) for c in row] for row in cosines(part, text, video)])
    torch.testing.assert_close(part(text, video), expected)
    assert torch.equal(part.projection.weight, torch.eye(4))
    assert part.projection.bias is None


def test_training_text_is_a_soft_maximum():
    part = TextPart(4, 4, temperature=0.1).train()
    text, video = texts(1, 3), unit_tokens(2, 5, 1)
    expected = [
        [0.1 * math.log(sum(math.exp(x / 0.1) for x in c.tolist()) / len(c)) for c in row]
        for row in cosines(part, text, video)
    ]
    torch.testing.assert_close(part(text, video), torch.tensor(expected), atol=1e-6, rtol=0)
    padded = part(text.pad_to(6), video.pad_to(9))
    torch.testing.assert_close(padded, torch.tensor(expected), atol=1e-6, rtol=0)
    assert (part(text, video) <= part.eval()(text, video) + 1e-6).all()


@pytest.mark.parametrize(("dim_text", "dim_frame"), [(6, 4), (4, 6)])
def test_other_sizes_start_orthogonal_and_repeatable(dim_text, dim_frame):
    one, two = TextPart(dim_text, dim_frame), TextPart(dim_text, dim_frame)
    weight = one.projection.weight
    assert torch.equal(weight, two.projection.weight)
    product = weight @ weight.T if dim_frame < dim_text else weight.T @ weight
    torch.testing.assert_close(product, torch.eye(4), atol=1e-6, rtol=0)


@pytest.mark.parametrize("training", [False, True])
def test_empty_entries_give_minus_infinity_and_finite_gradients(training):
    part = TextPart(4, 4).train(training)
    text, video = texts(2, 2), unit_tokens(3, 3)
    text = TextTokens(text.x, torch.tensor([[True, False], [False, False]]))
    scores = part(text, video)
    assert torch.isfinite(scores).tolist() == [[True, True], [False, False]]
    scores[0].sum().backward()
    assert torch.isfinite(part.projection.weight.grad).all()


def test_text_mistakes():
    with pytest.raises(ConfigError, match="training_pooling='mean'"):
        TextPart(4, 4, training_pooling="mean")
    with pytest.raises(ConfigError, match="temperature=0"):
        TextPart(4, 4, temperature=0.0)


def batch(video: list[bool], text: list[bool]) -> QueryBatch:
    ids = tuple(f"q{i}" for i in range(len(video)))
    return QueryBatch(ids, None, None, {"video": torch.tensor(video), "text": torch.tensor(text)})


PARTS = {
    "video": torch.tensor([[0.2, 0.6], [0.4, 0.8], [0.0, 0.0]]),
    "text": torch.tensor([[0.4, 0.0], [0.0, 0.0], [0.1, 0.5]]),
}
QUERIES = batch([True, True, False], [True, False, True])


@pytest.mark.parametrize("head", [FusionHead(DIMS), MeanFusion(DIMS), WeightedFusion(DIMS)])
def test_heads_start_as_the_mean_of_the_present_parts(head):
    expected = torch.tensor([[0.3, 0.3], [0.4, 0.8], [0.1, 0.5]])
    torch.testing.assert_close(head.combine(PARTS, QUERIES), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("head", [MeanFusion(DIMS), WeightedFusion(DIMS)])
def test_an_absent_part_has_no_vote_whatever_its_values(head):
    spoiled = {"video": PARTS["video"].clone(), "text": PARTS["text"].clone().requires_grad_()}
    spoiled["video"][2] = float("nan")
    with torch.no_grad():
        spoiled["text"][1] = float("-inf")
    merged = head.combine(spoiled, QUERIES)
    torch.testing.assert_close(merged, head.combine(PARTS, QUERIES))
    merged.sum().backward()
    assert torch.isfinite(spoiled["text"].grad).all()
    assert (spoiled["text"].grad[1] == 0).all()


def test_weighted_after_training():
    head = WeightedFusion(DIMS)
    with torch.no_grad():
        head.log_weight["text"].fill_(math.log(3))
        head.log_scale["text"].fill_(math.log(2))
        head.bias["video"].fill_(0.1)
    expected = torch.tensor(
        [[(0.3 + 3 * 0.8) / 4, (0.7 + 0.0) / 4], [0.5, 0.9], [0.2, 1.0]]  # a = 2, w = 3 for text; b = 0.1 for video
    )
    torch.testing.assert_close(head.combine(PARTS, QUERIES), expected)
    head.combine(PARTS, QUERIES).sum().backward()
    assert all(p.grad is not None and float(p.grad) != 0 for p in head.log_weight.parameters())


def test_a_batch_that_does_not_mention_a_part():
    query = QueryBatch(("a",), None, None, {"video": torch.tensor([True])})
    merged = MeanFusion(DIMS).combine({"video": torch.tensor([[0.5]]), "text": torch.tensor([[9.0]])}, query)
    assert float(merged) == 0.5
