"""What must hold for S2VS whatever its weights: padding, batches, chunks, order, short clips, half precision."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.models.reference import load_reference_weights, read_reference_checkpoint
from muvr_train.models.s2vs import S2VS
from muvr_train.models.s2vs_base import base_scorer
from muvr_train.types import Tokens

DIM = 8
ALL = ({"name": "attention"}, {"name": "norm", "attention_norm": True}, {"name": "symmetric", "symmetric": True})
ALL += ({"name": "binary", "attention": False, "binarization": 32}, {"name": "batch_norm", "batch_norm": True})
ALL += (
    {"name": "batch_norm no pooling", "batch_norm": True, "pooling": False},
    {"name": "no pooling", "pooling": False},
)
ALL += ({"name": "residual", "residual": True, "base": "chamfer"},)
ALL += ({"name": "weighted base", "residual": True, "base": "chamfer_frames", "base_weights": True},)
variants = pytest.mark.parametrize("options", ALL, ids=lambda options: options["name"])


def build(options: dict[str, object], regions: int = 2, seed: int = 0, **more: object) -> S2VS:
    torch.manual_seed(seed)
    model = S2VS(DIM, regions, **{**{k: v for k, v in options.items() if k != "name"}, **more})
    with torch.no_grad():
        model.head.fconv.weight.mul_(20)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_()
                module.bias.normal_()
        if model.residual_scale is not None:
            model.residual_scale.fill_(0.7)
        if model.base_weights:
            model.attention.context_vector.weight.normal_()
    return model.eval()


def videos(lengths: Sequence[int], regions: int = 2, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, regions, DIM, generator=generator) for length in lengths]


def score(model: S2VS, q: Tokens, n: Tokens) -> Tensor:
    with torch.no_grad():
        return model.similarity(model.index(q), model.index(n))


def one_by_one(model: S2VS, queries: list[Tensor], database: list[Tensor]) -> Tensor:
    """The slow twin: every pair alone, without padding."""
    return torch.tensor([[float(score(model, Tokens.pack([q]), Tokens.pack([n]))) for n in database] for q in queries])


@variants
def test_padding_and_batching_never_change_a_score(options):
    model = build(options)
    queries, database = videos((15, 4, 1, 9)), videos((2, 13, 7, 3, 16, 5), seed=2)
    expected = one_by_one(model, queries, database)
    for extra in (16, 17, 23):
        actual = score(model, Tokens.pack(queries).pad_to(extra), Tokens.pack(database).pad_to(extra + 1))
        torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)
    for chunk in (1, 3, 5, 100):
        model.pair_chunk = chunk
        actual = score(model, Tokens.pack(queries), Tokens.pack(database))
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_any_lengths(lengths_q, lengths_n):
    model = build({})
    queries, database = videos(lengths_q), videos(lengths_n, seed=2)
    actual = score(model, Tokens.pack(queries).pad_to(14), Tokens.pack(database))
    torch.testing.assert_close(actual, one_by_one(model, queries, database), atol=1e-6, rtol=0)


def test_reference_rule_depends_on_padding():
    """Why `all` is the default: under `any` the same video scores differently when padded."""
    model = build({"mask_pooling": "any"})
    q, n = Tokens.pack(videos((15,))), Tokens.pack(videos((15,), seed=2))
    assert abs(score(model, q, n) - score(model, q.pad_to(16), n.pad_to(16))).item() > 1e-3


@variants
def test_frames_may_have_holes(options):
    model = build(options)
    x = torch.randn(2, 12, 2, DIM)
    mask = torch.rand(2, 12, generator=torch.Generator().manual_seed(3)) > 0.4
    whole = Tokens.pack([video[real] for video, real in zip(x, mask, strict=True)])
    other = Tokens.pack(videos((9,)))
    torch.testing.assert_close(score(model, other, Tokens(x, mask)), score(model, other, whole), atol=1e-6, rtol=0)


@variants
def test_order_of_videos_does_not_matter(options):
    model = build(options)
    q, n = Tokens.pack(videos((7, 5, 12))), Tokens.pack(videos((4, 9, 6, 11), seed=2))
    rows, columns = torch.tensor([2, 0, 1]), torch.tensor([3, 1, 0, 2])
    torch.testing.assert_close(score(model, q[rows], n[columns]), score(model, q, n)[rows][:, columns])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_clips_are_repeated_to_four_frames(length):
    model = build({})
    (clip,) = videos((length,))
    (other,) = videos((6,), seed=2)
    repeated = torch.cat([clip] * 4)[:4]
    expected = score(model, Tokens.pack([repeated]), Tokens.pack([other]))
    torch.testing.assert_close(score(model, Tokens.pack([clip]), Tokens.pack([other])), expected)
    torch.testing.assert_close(score(model, Tokens.pack([clip, other]), Tokens.pack([other]))[:1], expected)
    swapped = score(model, Tokens.pack([other]), Tokens.pack([clip]))
    torch.testing.assert_close(swapped, score(model, Tokens.pack([other]), Tokens.pack([repeated])))


BASES = ("frame_max", "frame_max_frames", "chamfer", "chamfer_max", "chamfer_frames")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("whiten", [False, 5])
def test_residual_equals_its_base_at_initialisation(base, whiten):
    model = S2VS(DIM, 2, whiten=whiten, residual=True, base=base)
    queries, database = Tokens.pack(videos((3, 15, 1))), Tokens.pack(videos((6, 2, 14, 9), seed=2))
    model.fit([database])
    own = base_scorer(base, DIM, 2)
    own.whitening = model.whitening
    for mode in (False, True):
        model.train(mode)
        index = model.index(queries)
        scores, extras = model.similarity_with_extras(index, model.index(database), frozenset({"self"}))
        expected = own.similarity(own.index(queries), own.index(database))
        torch.testing.assert_close(scores, expected, atol=1e-6, rtol=0)
        own_self = own.pair_similarity(own.index(queries), own.index(queries))
        torch.testing.assert_close(extras["self"], own_self, atol=1e-6, rtol=0)
    scores.sum().backward()
    assert float(model.residual_scale.grad) != 0
    assert model.range == (-1.0, 1.0)


@variants
def test_self_extra_is_the_diagonal(options):
    model = build(options)
    q, n = model.index(Tokens.pack(videos((7, 2, 12)))), model.index(Tokens.pack(videos((4, 9), seed=2)))
    with torch.no_grad():
        scores, extras = model.similarity_with_extras(q, n, frozenset({"self", "range_excess"}))
        own, own_extras = model.similarity_with_extras(q, q, frozenset({"self"}))
    torch.testing.assert_close(extras["self"], own.diagonal(), atol=1e-6, rtol=0)
    torch.testing.assert_close(own_extras["self"], own.diagonal())
    assert extras["range_excess"].shape == scores.shape == (3, 2)
    assert (extras["range_excess"] >= 0).all()
    assert model.range[0] <= float(scores.min()) <= float(scores.max()) <= model.range[1]


def test_checkpointing_gives_the_same_gradients():
    q, n = Tokens.pack(videos((12, 9, 12))), Tokens.pack(videos((10, 7), seed=2))
    grads = []
    for more in ({}, {"checkpointing": True, "pair_chunk": 2}):
        model = build({}, **more).train()
        scores, extras = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"range_excess"}))
        (scores.square().sum() + extras["range_excess"].sum()).backward()
        grads.append({name: p.grad for name, p in model.named_parameters()})
    for name, grad in grads[0].items():
        assert (grad - grads[1][name]).norm() <= 2e-5 * grad.norm() + 1e-9, name


def test_batch_norm_statistics_ignore_padding():
    q, n = Tokens.pack(videos((8, 8))), Tokens.pack(videos((8, 8, 8), seed=2))
    plain, padded = build({"batch_norm": True}).train(), build({"batch_norm": True}).train()
    one = plain.similarity(plain.index(q), plain.index(n))
    two = padded.similarity(padded.index(q.pad_to(13)), padded.index(n.pad_to(11)))
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(padded.state_dict()[name], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@variants
def test_half_precision_training_is_finite(options, dtype):
    model = build(options).train()
    q, n = Tokens.pack(videos((12, 3))), Tokens.pack(videos((10, 7, 1), seed=2))
    relevance = torch.tensor([[1, 0, 0], [0, 1, -1]])
    with torch.autocast("cpu", dtype=dtype):
        scores, _ = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"self"}))
        loss = InfoNCELoss(temperature=0.01)(scores, relevance)
    loss.backward()
    assert scores.dtype == torch.float32
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_empty_video_scores_minus_infinity():
    model = build({"residual": True})
    q, n = Tokens.pack(videos((5, 6))), Tokens.pack(videos((5, 6), seed=2))
    empty = Tokens(n.x, n.mask & torch.tensor([[True], [False]]))
    assert torch.isfinite(score(model, q, empty)).tolist() == [[True, False], [True, False]]
    assert torch.isfinite(score(model, empty, q)).tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"binarization": 64}, "excludes model.attention"),
        ({"binarization": 64, "attention": False, "residual": True}, "model.residual"),
        ({"attention": False, "attention_norm": True}, "needs model.attention=true"),
        ({"batch_norm": True, "checkpointing": True}, "model.checkpointing"),
        ({"binarization": 0, "attention": False}, "binarization=0"),
        ({"residual": True, "base": "chamfer_mx"}, "must be one of frame_max"),
        ({"base": "chamfer_mx"}, "must be one of frame_max"),
        ({"mask_pooling": "some"}, "mask_pooling='some'"),
        ({"pair_chunk": 0}, "pair_chunk=0"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        S2VS(DIM, 2, **options)


def test_reference_checkpoint(tmp_path):
    model = build({})
    weights = {key.replace("head.", "visil_head.", 1): value for key, value in model.state_dict().items()}
    torch.save({"model": weights, "args": Namespace(attention=True, dims=DIM)}, tmp_path / "s2vs_dns.pth")
    read, args = read_reference_checkpoint(tmp_path / "s2vs_dns.pth")
    assert args == {"attention": True, "dims": DIM}
    other = build({"residual": True}, seed=5)
    load_reference_weights(other, read)
    assert torch.equal(other.head.conv2.weight, model.head.conv2.weight)
    assert float(other.residual_scale.detach()) == pytest.approx(0.7)
    del read["visil_head.fconv.bias"]
    read["visil_head.conv1.weight"] = torch.zeros(1)
    read["extra"] = torch.zeros(1)
    with pytest.raises(
        DataError, match=r"missing head.fconv.bias, unexpected extra, head.conv1.weight has shape \(1,\)"
    ):
        load_reference_weights(other, read)


def test_unusable_reference_files(tmp_path):
    with pytest.raises(DataError, match="no such checkpoint"):
        read_reference_checkpoint(tmp_path / "none.pth")
    (tmp_path / "broken.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="cannot be read"):
        read_reference_checkpoint(tmp_path / "broken.pth")
    torch.save({"model": {}, "args": pytest.approx(1)}, tmp_path / "code.pth")
    with pytest.raises(DataError, match="cannot be read"):
        read_reference_checkpoint(tmp_path / "code.pth")
    torch.save([1], tmp_path / "list.pth")
    with pytest.raises(DataError, match="key 'model'"):
        read_reference_checkpoint(tmp_path / "list.pth")


@pytest.mark.parametrize("base", ["chamfer", "chamfer_frames"])
def test_a_weighted_base_starts_as_the_base_and_is_a_weighted_mean(base: str) -> None:
    torch.manual_seed(0)
    model = S2VS(DIM, 2, residual=True, base=base, base_weights=True).eval()
    q, n = Tokens.pack(videos([3, 6])), Tokens.pack(videos([5, 4, 7], seed=2))
    plain = base_scorer(base, DIM, 2)
    torch.testing.assert_close(score(model, q, n), plain.similarity(plain.index(q), plain.index(n)))

    with torch.no_grad():
        model.attention.context_vector.weight.normal_()
    sides = plain.index(q), plain.index(n)
    units = [torch.nn.functional.normalize(tokens.x, dim=-1) for tokens in (q, n)]
    attend = model.attention
    weights = [torch.sigmoid(attend.context_vector(torch.tanh(attend.transform(x)))).mean((2, 3)) for x in units]
    for i in range(2):
        for j in range(3):
            maps = plain.similarity_map(sides[0][i : i + 1], sides[1][j : j + 1])
            real = maps[0, 0][: int(q.mask[i].sum()), : int(n.mask[j].sum())]
            best = (real * 2 * weights[1][j, : real.shape[1]]).amax(1)
            w = weights[0][i, : real.shape[0]]
            with torch.no_grad():
                expected = float((best * w).sum() / w.sum())
                assert float(score(model, q, n)[i, j]) == pytest.approx(expected, abs=1e-5)


def test_a_weighted_base_learns() -> None:
    model = S2VS(DIM, 2, residual=True, base="chamfer_frames", base_weights=True)
    q = Tokens.pack(videos([3, 6]))
    scores = model.similarity(model.index(q), model.index(q))
    scores[0, 1].backward()
    assert model.attention.context_vector.weight.grad.abs().sum() > 0
    assert torch.isfinite(model.attention.context_vector.weight.grad).all()


@pytest.mark.parametrize(
    "options", [{"residual": False}, {"attention": False, "residual": True}, {"attention_norm": True, "residual": True}]
)
def test_a_weighted_base_needs_attention_and_residual(options: dict[str, bool]) -> None:
    with pytest.raises(ConfigError, match="base_weights"):
        S2VS(DIM, base_weights=True, **options)
