"""Training S2VS in pieces: scores and gradients are those of the slow twin, memory is bounded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from muvr_train.errors import ConfigError
from muvr_train.models.s2vs import S2VS
from muvr_train.models.s2vs_plan import CHUNK_CELLS, pairs_at_once
from muvr_train.types import Tokens
from tests.reference.s2vs_plain import one_by_one, plain_scores

DIM = 8
CONFIGURATIONS: dict[str, dict[str, object]] = {
    "attention": {},
    "attention_norm": {"attention_norm": True},
    "no attention": {"attention": False},
    "symmetric": {"symmetric": True},
    "binary": {"attention": False, "binarization": 16},
    "no pooling": {"pooling": False},
    "residual": {"residual": True, "base": "chamfer_max"},
    "residual chamfer": {"residual": True, "base": "chamfer"},
    "base weights": {"residual": True, "base": "chamfer_max", "base_weights": True},
    "base weights, frames": {"residual": True, "base": "chamfer_frames", "base_weights": True},
    "base weights, frame_max": {"residual": True, "base": "frame_max", "base_weights": True},
    "recomputed": {"checkpointing": True},
    "recomputed, symmetric": {"checkpointing": True, "symmetric": True, "pair_chunk": 3},
}
LENGTHS = {"equal": ((6, 6, 6), (5, 5)), "ragged": ((7, 1, 12), (5, 16, 4, 2)), "one frame": ((1,), (1, 1))}


def build(options: dict[str, object], regions: int = 3) -> S2VS:
    torch.manual_seed(0)
    model = S2VS(DIM, regions, **options)
    with torch.no_grad():
        model.head.fconv.weight.mul_(20)
        if model.residual_scale is not None:
            model.residual_scale.fill_(0.7)
        if model.base_weights:
            model.attention.context_vector.weight.normal_()
    return model.train()


def videos(lengths: Sequence[int], regions: int = 3, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, regions, DIM, generator=generator) for length in lengths]


def gradients(model: S2VS, scored: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Of a loss that no symmetry makes vanish."""
    scores, excess = scored
    weight = torch.linspace(-1, 2, scores.numel()).view(scores.shape)
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    found = torch.autograd.grad(
        (scores * weight).sum() + 0.3 * excess.sum(), parameters.values(), allow_unused=True, materialize_grads=True
    )
    return dict(zip(parameters, found, strict=True))


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 2e-5) -> None:
    largest = max(float(grad.norm()) for grad in theirs.values())
    assert largest > 0
    for name, grad in theirs.items():
        assert float((ours[name] - grad).norm()) <= tolerance * float(grad.norm()) + 1e-6 * largest, name


def scored(model: S2VS, q: Tokens, n: Tokens) -> tuple[Tensor, Tensor]:
    scores, extras = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"range_excess"}))
    return scores, extras["range_excess"]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_scores_and_gradients_equal_those_of_one_pair_after_the_other(name, lengths):
    model = build(CONFIGURATIONS[name])
    queries, database = videos(LENGTHS[lengths][0]), videos(LENGTHS[lengths][1], seed=2)
    ours = scored(model, Tokens.pack(queries).pad_to(17), Tokens.pack(database))
    theirs = one_by_one(model, queries, database)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)
    equal(gradients(model, ours), gradients(model, theirs), 1e-4 if "binary" in name else 2e-5)


@pytest.mark.parametrize("name", ["attention", "symmetric", "residual"])
def test_frames_may_have_holes(name):
    model = build(CONFIGURATIONS[name])
    x, mask = torch.stack(videos((9, 9))), torch.rand(2, 9, generator=torch.Generator().manual_seed(3)) > 0.4
    whole = [video[real] for video, real in zip(x, mask, strict=True)]
    other = videos((5, 8, 3), seed=2)
    ours, theirs = scored(model, Tokens.pack(other), Tokens(x, mask)), one_by_one(model, other, whole)
    torch.testing.assert_close(ours[0], theirs[0], atol=2e-6, rtol=1e-5)
    equal(gradients(model, ours), gradients(model, theirs))


def test_weights_of_frames_scale_the_rows():
    model = build({})
    q, n = Tokens.pack(videos((6, 6))), Tokens.pack(videos((5, 5, 5), seed=2))
    weight = torch.rand(2, 6)
    index_q = model.index(q)
    ours = model._compare(Tokens(index_q.x, index_q.mask, weight), model.index(n), None)
    theirs = plain_scores(model, model.index(q).x * weight[:, :, None, None], model.index(n).x)
    torch.testing.assert_close(ours[0], theirs[0], atol=2e-6, rtol=1e-5)
    equal(gradients(model, ours), gradients(model, theirs))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("pooling", [False, True])
def test_batch_norm_sees_all_pairs(symmetric, pooling):
    model, twin = (build({"batch_norm": True, "symmetric": symmetric, "pooling": pooling}) for _ in range(2))
    q, n = Tokens.pack(videos((8, 8))), Tokens.pack(videos((7, 7, 7), seed=2))
    theirs = plain_scores(twin, twin.index(q).x, twin.index(n).x)
    ours = scored(model, q, n)
    torch.testing.assert_close(ours[0], theirs[0], atol=2e-6, rtol=1e-5)
    equal(gradients(model, ours), gradients(twin, theirs), 2e-4)  # statistics of all pairs: sums that cancel
    torch.testing.assert_close(model.head.conv2[1].running_var, twin.head.conv2[1].running_var)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 5, 1000])
def test_pieces_change_nothing(chunk, again, ragged):
    q, n = (Tokens.pack(videos(lengths, seed=seed)) for seed, lengths in enumerate(((5, 9, 2, 6), (7, 7, 7, 12, 3))))
    if not ragged:
        q, n = Tokens(q.x, torch.ones_like(q.mask)), Tokens(n.x, torch.ones_like(n.mask))
    whole, pieces = build({"checkpointing": False}), build({"checkpointing": again, "pair_chunk": chunk})
    ours, theirs = (scored(model, q, n) for model in (pieces, whole))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    equal(gradients(pieces, ours), gradients(whole, theirs))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("lengths", [(6, 6, 6, 6), (7, 3, 12, 5)])
def test_videos_that_are_on_both_sides(symmetric, lengths):
    model, x = build({"symmetric": symmetric}), Tokens.pack(videos(lengths))
    index = model.index(x)
    once, scores = {}, {}
    for name, other in (("same", index), ("copy", Tokens(index.x.clone(), index.mask))):
        scores[name], extras = model.similarity_with_extras(index, other, frozenset({"range_excess", "self"}))
        torch.testing.assert_close(extras["self"], scores[name].diagonal(), atol=1e-6, rtol=0)
        once[name] = gradients(model, (scores[name], extras["range_excess"])) if name == "same" else None
    copied = gradients(model, model._compare(model.index(x), Tokens(model.index(x).x.clone(), x.mask), None))
    torch.testing.assert_close(scores["same"], scores["copy"], atol=1e-6, rtol=0)
    equal(once["same"], copied)


@pytest.mark.parametrize(("count_q", "count_n"), [(0, 2), (2, 0), (0, 0)])
@pytest.mark.parametrize("training", [False, True])
def test_no_query_or_no_video(count_q, count_n, training):
    model = build({}).train(training)
    q, n = (
        Tokens(torch.zeros(count, 5, 3, DIM), torch.ones(count, 5, dtype=torch.bool)) for count in (count_q, count_n)
    )
    scores, excess = scored(model, q, n)
    assert scores.shape == excess.shape == (count_q, count_n)
    extras = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"self"}))[1]
    assert extras["self"].shape == (count_q,)
    scores.sum().backward()


def test_a_budget_changes_memory_and_no_gradient():
    q, n = (Tokens.pack(videos((12,) * 6, seed=seed)) for seed in (1, 2))
    free, small = build({}), build({})
    small.memory_budget = 400_000
    side_q, side_n = small._side(small.index(q)), small._side(small.index(n))
    pairs, again = pairs_at_once(small, side_q, side_n)
    assert again
    assert pairs < 6
    assert pairs_at_once(free, side_q, side_n) == (CHUNK_CELLS["cpu"] // 144, False)
    ours, theirs = scored(small, q, n), scored(free, q, n)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    equal(gradients(small, ours), gradients(free, theirs))
    small.memory_budget = 600_000
    for model in (small, free):
        model.eval()
    with torch.no_grad():
        torch.testing.assert_close(scored(small, q, n), scored(free, q, n), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_a_budget_too_small_for_one_pair_says_what_is_needed(training):
    model = build({}).train(training)
    model.memory_budget = 60_000
    q, n = Tokens.pack(videos((12, 12))), Tokens.pack(videos((12, 12, 9)))
    with (
        torch.set_grad_enabled(training),
        pytest.raises(ConfigError, match=r"memory_budget=60.0 kB is too small for a pair .* 12 frames") as caught,
    ):
        scored(model, q, n)
    assert ("max_frames" in str(caught.value)) == training
    model.memory_budget = int(1000 * float(str(caught.value).split("at least ")[1].split(" kB")[0]))
    with torch.set_grad_enabled(training):
        scored(model, q, n)
    if not training:
        model.memory_budget = model.least_budget(12, 12)
        scored(model.eval(), q, n)
        model.memory_budget -= 8
        with pytest.raises(ConfigError, match="memory_budget"), torch.no_grad():
            scored(model, q, n)


@pytest.mark.parametrize(("key", "value"), [("pair_chunk", 5), ("memory_budget", 100_000)])
def test_batch_norm_cannot_be_trained_in_pieces(key, value):
    model = build({"batch_norm": True})
    setattr(model, key, value)
    q, n = Tokens.pack(videos((6, 6))), Tokens.pack(videos((5, 5, 5), seed=2))
    with pytest.raises(ConfigError, match=rf"{key}=.*model.batch_norm=true needs all pairs"):
        scored(model, q, n)
    setattr(model, key, 6 if key == "pair_chunk" else 10**8)
    scored(model, q, n)
    setattr(model, key, value)
    model.memory_budget = None
    with torch.no_grad():
        scored(model.eval(), q, n)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("regions", [1, 3])
def test_half_precision_products_are_those_of_rounded_frames(half, regions):
    model = build({}, regions).eval()
    q, n = (model.index(Tokens.pack(videos(lengths, regions))) for lengths in ((6, 9), (5, 5, 12)))
    rounded = [Tokens(side.x.to(half).float(), side.mask) for side in (q, n)]
    with torch.no_grad():
        exact, expected = model.similarity(q, n), model.similarity(*rounded)
        model.product_dtype = half
        scores = model.similarity(q, n)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected, atol=1e-6, rtol=0)
    assert 0 < float((scores - exact).abs().max()) < 0.05
    model.train()
    with torch.no_grad():
        torch.testing.assert_close(model.similarity(q, n), exact, atol=1e-6, rtol=0)


def test_a_residual_network_changes_its_precision_as_a_whole():
    """Its base too, whichever scores are asked for first."""
    model = build(CONFIGURATIONS["residual"]).eval()
    q, n = (model.index(Tokens.pack(videos((6, 9), seed=seed))) for seed in (1, 2))
    with torch.no_grad():
        exact = model.pair_similarity(q, n)
        model.product_dtype = torch.float16
        rounded = model.pair_similarity(q, n)
        torch.testing.assert_close(rounded, model.similarity(q, n).diagonal(), atol=2e-6, rtol=0)
        model.product_dtype = None
        torch.testing.assert_close(model.pair_similarity(q, n), exact, atol=0, rtol=0)
    assert float((rounded - exact).abs().max()) > 1e-5


@pytest.mark.parametrize("again", [False, True])
def test_pieces_do_not_sum_gradients_in_half_precision(again):
    """Of a cast of the weights that pieces share, gradients would be summed in bfloat16."""
    q, n = (Tokens.pack(videos((8,) * 12, seed=seed)) for seed in (1, 2))

    def gradient(chunk: int, half: bool) -> Tensor:
        model = build({"checkpointing": again, "pair_chunk": chunk})
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            scores = model.similarity(model.index(q), model.index(n))
        return torch.autograd.grad(scores.sum(), model.head.conv2.weight)[0]

    exact = gradient(144, half=False)
    one, many = (float((gradient(chunk, half=True) - exact).norm() / exact.norm()) for chunk in (144, 1))
    assert 1e-4 < many < 0.02
    assert many < 1.5 * one  # kernels of processors without bfloat16 sum in it themselves: 0.04 in one piece


@pytest.mark.parametrize("name", ["attention", "symmetric", "residual"])
@pytest.mark.parametrize("kind", ["bf16-mixed", "product_dtype", "float32"])
def test_own_scores_are_those_of_the_diagonal_in_every_precision(name, kind):
    """With several processes a batch's queries are not its database, and are compared with themselves apart."""
    model, x = build(CONFIGURATIONS[name]), Tokens.pack(videos((12, 5, 3, 9)))
    if kind == "product_dtype":
        model.eval().product_dtype = torch.bfloat16
    half = kind == "bf16-mixed"
    index = model.index(x)
    copy = Tokens(index.x.clone(), index.mask)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        wanted = frozenset({"self"})
        together, apart = (model.similarity_with_extras(index, n, wanted)[1]["self"] for n in (index, copy))
    one, other = (torch.autograd.grad(own.sum(), model.head.conv1.weight)[0] for own in (together, apart))
    torch.testing.assert_close(apart, together, atol=2e-6, rtol=0)
    assert float((other - one).norm()) <= (0.02 if half else 2e-5) * float(one.norm())


@pytest.mark.parametrize("again", [False, True])
def test_no_piece_makes_a_gradient_of_the_full_size(again):
    """The backward pass of a slice makes zeros as large as what was sliced, once for each piece."""
    q, n = (Tokens.pack(videos((8, 7, 8, 6, 8, 5), seed=seed)) for seed in (1, 2))
    model = build({"checkpointing": again, "pair_chunk": 4})
    scores, extras = model.similarity_with_extras(model.index(q), model.index(n), frozenset({"self"}))
    with SliceGradients() as seen:
        (scores.sum() + extras["self"].sum()).backward()
    assert max(seen.sizes, default=0) <= 4 * 8 * 8 < min(q.x.numel(), 6 * 6 * 8 * 8)
    with SliceGradients() as seen:
        scored(model, q, n)[0][1:].sum().backward()
    assert seen.sizes == [6 * 6]


class SliceGradients(TorchDispatchMode):
    """Notes how many entries the gradients of slices have."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.slice_backward.default:
            self.sizes.append(result.numel())
        return result


@pytest.mark.parametrize("options", [{}, {"symmetric": True}, {"pooling": False}, {"mask_pooling": "any"}])
@pytest.mark.parametrize("length", [4, 9])
def test_a_video_without_a_frame_has_no_range_excess(length, options):
    model = build({"checkpointing": False, **options})
    with torch.no_grad():
        model.head.fconv.bias.fill_(3.0)
    full, some = Tokens.pack(videos((length, length))), Tokens.pack(videos((length, length, length), seed=2))
    empty = Tokens(some.x, some.mask & torch.tensor([True, False, True])[:, None])
    scores, excess = scored(model, full, empty)
    assert torch.isneginf(scores).tolist() == [[False, True, False]] * 2
    assert (excess > 0).tolist() == [[True, False, True]] * 2
    assert scored(model, empty, full)[1][1].tolist() == [0.0, 0.0]
    none = Tokens(some.x, torch.zeros_like(some.mask))
    assert bool((scored(model, none, none)[1] == 0).all())


@pytest.mark.slow
def test_a_compiled_head_scores_the_same():
    plain, compiled = build({}), build({"compile": True})
    q, n = Tokens.pack(videos((9, 4))), Tokens.pack(videos((12, 12, 5), seed=2))
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    ours, theirs = scored(compiled, q, n), scored(plain, q, n)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    equal(gradients(compiled, ours), gradients(plain, theirs))


PEAK = """
import sys
sys.path.insert(0, {root!r})
from tests.models.test_s2vs_training import peak_of_step
print(peak_of_step({plain}))
"""


def peak_of_step(plain: bool) -> int:
    """Bytes by which resident memory grows in a training step on 44 videos x 32 frames x 9 regions x 64."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = S2VS(64, 9, checkpointing=True), torch.randn(44, 32, 9, 64)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        index = model.index(Tokens(x, torch.ones(x.shape[:2], dtype=torch.bool)))
        if plain:
            return plain_scores(model, index.x, index.x)
        scores, extras = model.similarity_with_extras(index, index, frozenset({"range_excess"}))
        return scores, extras["range_excess"]

    step(x[:2, :4])[0].sum().backward()  # which also imports what the first checkpoint of a process imports
    model.checkpointing = None
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    scores, excess = step(x)
    (scores.sum() + excess.sum()).backward()
    return memory("VmHWM") - before


def memory(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_a_step_takes_less_than_a_quarter_of_the_memory_of_the_plain_formulation():
    peaks = []
    for plain in (True, False):
        code = PEAK.format(root=str(Path(__file__).parents[2]), plain=plain)
        peaks.append(int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))
    assert peaks[0] > 4 * 44**2 * (32 * 9) ** 2  # the tensor of all similarities is there
    assert peaks[1] <= peaks[0] / 4
