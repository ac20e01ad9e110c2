"""Extra maps of the fusion head in S2VS: equal to the slow twin, with gradients, however the pairs are computed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.reference import load_reference_weights
from muvr_train.models.s2vs import S2VS
from muvr_train.types import Tokens
from tests.reference.s2vs_plain import one_by_one

DIM, MAPS = 8, 2
LENGTHS = {"equal": ((6, 6, 6), (5, 5)), "ragged": ((7, 1, 12), (5, 16, 4, 2)), "one frame": ((1,), (1, 1))}
OPTIONS: dict[str, dict[str, object]] = {
    "attention": {},
    "symmetric": {"symmetric": True},
    "binary": {"attention": False, "binarization": 16},
    "no pooling": {"pooling": False},
    "residual": {"residual": True, "base": "chamfer_max"},
    "recomputed": {"checkpointing": True, "pair_chunk": 3},
    "pieces": {"pair_chunk": 1},
}


def build(options: dict[str, object], maps: int = MAPS) -> S2VS:
    torch.manual_seed(0)
    model = S2VS(DIM, 2, extra_maps=maps, **options)
    with torch.no_grad():
        model.head.fconv.weight.mul_(20)
        if maps:
            first = model.head.conv1[0] if model.head.batch_norm else model.head.conv1
            first.weight[:, 1:].normal_(std=0.2)
        if model.residual_scale is not None:
            model.residual_scale.fill_(0.7)
    return model.train()


def videos(lengths: Sequence[int], seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, 2, DIM, generator=generator) for length in lengths]


def random_maps(queries: list[Tensor], database: list[Tensor]) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [
        [torch.randn(len(q), len(n), MAPS, generator=generator).requires_grad_() for n in database] for q in queries
    ]


def packed(maps: list[list[Tensor]], frames: tuple[int, int]) -> Tensor:
    """[Q, N, K, T1, T2] with NaN in padding."""
    rows = []
    for row in maps:
        padded = []
        for pair in row:
            full = torch.full((*frames, MAPS), float("nan"))
            full[: pair.shape[0], : pair.shape[1]] = pair
            padded.append(full.permute(2, 0, 1))
        rows.append(torch.stack(padded))
    return torch.stack(rows)


def scored(model: S2VS, q: Tokens, n: Tokens, maps: Tensor | None) -> tuple[Tensor, Tensor]:
    scores, extras = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"range_excess"}), maps)
    return scores, extras["range_excess"]


def gradients(model: S2VS, found: tuple[Tensor, Tensor], maps: list[list[Tensor]]) -> dict[str, Tensor]:
    scores, excess = found
    weight = torch.linspace(-1, 2, scores.numel()).view(scores.shape)
    named = dict(model.named_parameters()) | {
        f"map {i} {j}": m for i, row in enumerate(maps) for j, m in enumerate(row)
    }
    loss = (scores * weight).sum() + 0.3 * excess.sum()
    return dict(zip(named, torch.autograd.grad(loss, named.values(), materialize_grads=True), strict=True))


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    largest = max(float(grad.norm()) for grad in theirs.values())
    assert min(float(grad.norm()) for name, grad in theirs.items() if name.startswith(("map", "head.conv1"))) > 0
    for name, grad in theirs.items():
        assert float((ours[name] - grad).norm()) <= 1e-4 * float(grad.norm()) + 1e-6 * largest, name


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", OPTIONS)
def test_scores_and_gradients_equal_those_of_one_pair_after_the_other(name, lengths):
    model = build(OPTIONS[name])
    queries, database = videos(LENGTHS[lengths][0]), videos(LENGTHS[lengths][1], seed=2)
    maps = random_maps(queries, database)
    q, n = Tokens.pack(queries).pad_to(17), Tokens.pack(database)
    ours = scored(model, q, n, packed(maps, (17, n.mask.shape[1])))
    theirs = one_by_one(model, queries, database, maps)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)
    equal(gradients(model, ours, maps), gradients(model, theirs, maps))
    with torch.no_grad():
        without = one_by_one(model, queries, database)[0]
        torch.testing.assert_close(scored(model, q, n, None)[0], without, atol=2e-6, rtol=1e-5)
        assert float((without - theirs[0]).abs().min()) > 1e-4


@pytest.mark.parametrize("name", ["attention", "no pooling", "residual"])
@pytest.mark.parametrize("training", [False, True])
def test_frames_may_have_holes(name, training):
    """Maps follow the frames of the tokens as given, whatever S2VS moves."""
    model = build(OPTIONS[name]).train(training)
    queries, database = videos((9, 9)), videos((5, 8, 3), seed=2)
    maps = random_maps(queries, database)
    mask = torch.rand(2, 9, generator=torch.Generator().manual_seed(3)) > 0.4
    whole = [video[real] for video, real in zip(queries, mask, strict=True)]
    chosen = [[pair[real] for pair in row] for row, real in zip(maps, mask, strict=True)]
    with torch.set_grad_enabled(training):
        ours = scored(model, Tokens(torch.stack(queries), mask), Tokens.pack(database), packed(maps, (9, 8)))
        theirs = one_by_one(model, whole, database, chosen)
        torch.testing.assert_close(ours[0], theirs[0], atol=2e-6, rtol=1e-5)
    if training:
        equal(gradients(model, ours, maps), gradients(model, theirs, maps))


@pytest.mark.parametrize("budget", [None, 500_000])
def test_tiles_of_inference(budget, monkeypatch):
    """Maps of several blocks, some of them small, under a budget too."""
    model = build({"residual": True, "base": "chamfer"}).eval()
    model.memory_budget = budget
    monkeypatch.setattr("muvr_train.models.s2vs.MAP_ENTRIES", {"cpu": 200})
    queries, database = videos((5, 9, 2, 6)), videos((7, 12, 3, 7, 7), seed=2)
    maps = random_maps(queries, database)
    with torch.no_grad():
        ours = scored(model, Tokens.pack(queries), Tokens.pack(database), packed(maps, (9, 12)))
        theirs = one_by_one(model, queries, database, maps)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)


def test_one_value_for_all_frames_of_a_side():
    model = build({"checkpointing": True, "pair_chunk": 2})
    queries, database = videos((7, 3, 9)), videos((12, 2, 6, 6), seed=2)
    q, n = Tokens.pack(queries), Tokens.pack(database)
    found = []
    for rows in (1, 9):
        row = torch.randn(3, 4, MAPS, 1, 12, generator=torch.Generator().manual_seed(4)).requires_grad_()
        scores, _ = scored(model, q, n, row.expand(-1, -1, -1, rows, -1))
        found.append((scores, torch.autograd.grad(scores.square().sum(), row)[0]))
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"residual": True}, {"batch_norm": True}, {"pooling": False}], ids=str)
def test_new_channels_change_nothing_at_first(options):
    torch.manual_seed(5)
    plain = S2VS(DIM, 2, **options)
    torch.manual_seed(5)
    model = S2VS(DIM, 2, extra_maps=MAPS, **options)
    for name, value in model.state_dict().items():
        own = plain.state_dict()[name]
        assert torch.equal(value[:, :1] if value.shape != own.shape else value, own), name
    first = model.head.conv1[0] if options.get("batch_norm") else model.head.conv1
    assert first.weight.shape == (32, 1 + MAPS, 3, 3)
    assert not bool(first.weight[:, 1:].any())
    q, n = Tokens.pack(videos((7, 3))), Tokens.pack(videos((12, 2, 6), seed=2))
    maps = torch.randn(2, 3, MAPS, 7, 12)
    for network in (plain, model):
        network.eval()
    ours = model.similarity(model.index(q), model.index(n), maps)
    torch.testing.assert_close(ours, plain.similarity(plain.index(q), plain.index(n)), atol=1e-6, rtol=0)
    (grad,) = torch.autograd.grad(ours.sum(), [first.weight])
    if not options.get("residual"):  # whose scale starts at 0
        assert bool((grad[:, 1:].flatten(2).norm(dim=(0, 2)) > 0).all())


def test_a_video_is_compared_with_itself_without_the_maps():
    """So `self` is the same whether a batch's queries are its database or, with several processes, a part of it."""
    model = build({})
    x = model.index(Tokens.pack(videos((6, 3, 9))))
    maps, wanted = torch.randn(3, 3, MAPS, 9, 9), frozenset({"self"})
    own = model.pair_similarity(x, x)
    for other in (x, Tokens(x.x.clone(), x.mask)):
        scores, extras = model.similarity_with_extras(x, other, wanted, maps)
        torch.testing.assert_close(extras["self"], own, atol=1e-6, rtol=0)
        assert float((extras["self"] - scores.diagonal()).detach().abs().min()) > 1e-4
    torch.testing.assert_close(model.similarity(x, x).diagonal(), own, atol=1e-6, rtol=0)


def test_reference_weights_fill_the_first_channel():
    plain, model = build({}, maps=0), build({})
    extra = model.head.conv1.weight[:, 1:].clone()
    load_reference_weights(model, {key.replace("head.", "visil_head."): v for key, v in plain.state_dict().items()})
    assert torch.equal(model.head.conv1.weight[:, :1], plain.head.conv1.weight)
    assert torch.equal(model.head.conv1.weight[:, 1:], extra)


def test_training_counts_the_maps():
    x = Tokens.pack(videos((6, 6)))
    plain, model = build({}, maps=0), build({})
    more = model.training_bytes(x, x)[0] - plain.training_bytes(x, x)[0]
    assert more == 16 * MAPS * 36
    assert model.least_budget(6, 6) >= plain.least_budget(6, 6)


@pytest.mark.parametrize("shape", [(2, 3, 1, 7, 12), (2, 3, MAPS, 6, 12), (3, 2, MAPS, 7, 12), (2, 3, 7, 12)])
def test_maps_of_another_shape_are_refused(shape):
    model = build({})
    q, n = model.index(Tokens.pack(videos((7, 3)))), model.index(Tokens.pack(videos((12, 2, 6))))
    with pytest.raises(ConfigError, match=r"extra maps are \(.*needed are \(2, 3, 2, 7, 12\)"):
        model.similarity(q, n, torch.zeros(shape))


def test_a_network_without_channels_refuses_maps():
    model = build({}, maps=0)
    x = model.index(Tokens.pack(videos((5,))))
    with pytest.raises(ConfigError, match="extra maps"):
        model.similarity(x, x, torch.zeros(1, 1, 1, 5, 5))
    with pytest.raises(ConfigError, match="extra_maps=-1"):
        S2VS(DIM, extra_maps=-1)
