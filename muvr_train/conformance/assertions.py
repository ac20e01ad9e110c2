"""Assertions whose messages say which queries, which videos and which numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
TOLERANCE = 1e-5
"""By how much scores may differ that must be equal (and so much of their size)."""


class Subject:
    """What is checked, by name; every failure begins with it.

    Args:
        name: such as "MyHead, 9 regions of 16, texts of 8".
        rows: names of the queries.
        columns: names of the database videos.
    """

    def __init__(self, name: str, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> None:
        self.name, self.rows, self.columns = name, list(rows), list(columns)

    def require(self, condition: bool, problem: str) -> None:
        """Raise AssertionError unless the condition holds."""
        if not condition:
            raise AssertionError(f"{self.name}: {problem}")

    def require_matrix(self, value: object, shape: tuple[int, ...], what: str) -> None:
        """It must be a float32 tensor of this shape without NaN or infinity."""
        if not isinstance(value, Tensor):
            raise AssertionError(f"{self.name}: {what} must be a tensor, got {type(value).__name__}")
        self.require(tuple(value.shape) == shape, f"{what} must have shape {list(shape)}, got {list(value.shape)}")
        self.require(value.dtype == torch.float32, f"{what} must be float32, got {value.dtype}")
        bad = (~torch.isfinite(value)).nonzero().tolist()
        self.require(not bad, f"{what} holds {len(bad)} entries that are NaN or infinite, first {self._where(bad[:1])}")

    def require_equal(self, expected: Tensor, actual: Tensor, problem: str, tolerance: float = TOLERANCE) -> None:
        """Two score matrices must agree; the message names the worst entry."""
        self.require(expected.shape == actual.shape, f"{problem}: {list(expected.shape)} became {list(actual.shape)}")
        if not expected.numel():
            return
        excess = (expected - actual).abs() - tolerance * (1 + expected.abs())
        excess = torch.where(torch.isnan(excess) & (expected != actual), float("inf"), excess)
        worst = int(torch.nan_to_num(excess, nan=-1.0, posinf=3e38).argmax())
        place = [int(i) for i in torch.unravel_index(torch.tensor(worst), expected.shape)]
        old, new = float(expected.flatten()[worst]), float(actual.flatten()[worst])
        differ = int((excess > 0).sum())
        self.require(
            differ == 0,
            f"{problem}: the score of {self._where([place])} is {old:.6g} or {new:.6g}, a difference of "
            f"{abs(old - new):.2g} where {tolerance:g} is allowed ({differ} of {excess.numel()} scores differ)",
        )

    def require_alike(self, evaluated: Tensor, trained: Tensor) -> None:
        """Scores of both modes must go up together; they need not be equal (a binarization is soft in training)."""
        pairs = torch.stack([evaluated.flatten(), trained.flatten()])
        alike = float(torch.corrcoef(pairs[:, torch.isfinite(pairs).all(dim=0)])[0, 1])
        self.require(not alike < 0, f"scores go the other way than in eval mode, with a correlation of {alike:.2f}")

    def require_reached(self, tensors: Sequence[Tensor], problem: str) -> None:
        """After backward(): the gradients of tensors must be finite, and some entry of some of them must not be 0."""
        found = [tensor.grad for tensor in tensors if tensor.grad is not None]
        bad = sum(int((~torch.isfinite(gradient)).sum()) for gradient in found)
        self.require(bad == 0, f"{problem}: {bad} entries of the gradient are NaN or infinite")
        self.require(any(bool((gradient != 0).any()) for gradient in found), f"{problem}: no gradient, or 0 everywhere")

    def _where(self, places: list[list[int]]) -> str:
        if not places:
            return ""
        place = places[0]
        row = self.rows[place[0]] if place and place[0] < len(self.rows) else str(place[:1])
        column = self.columns[place[1]] if len(place) > 1 and place[1] < len(self.columns) else str(place[1:])
        return f"query {row} and video {column}"

    def require_gradients(
        self, module: nn.Module, value: Callable[[], Tensor], reach_all: bool, when: str = ""
    ) -> None:
        """The gradient of `value` must be finite, and under `reach_all` must reach every parameter of the module."""
        module.zero_grad()
        result = value()
        learned = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
        if not learned:
            return
        self.require(result.requires_grad or not reach_all, "no parameter has a gradient: the scores are detached")
        if not result.requires_grad:
            return
        result.backward()  # type: ignore[no-untyped-call]
        for name, parameter in learned:
            gradient = parameter.grad
            if gradient is None:
                self.require(not reach_all, f"no gradient reaches the parameter {name}: the scores do not use it")
                continue
            bad = int((~torch.isfinite(gradient)).sum())
            self.require(bad == 0, f"{when}the gradient of {name} has {bad} entries that are NaN or infinite")
            self.require(not reach_all or bool((gradient != 0).any()), f"the gradient of {name} is 0 everywhere")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: these tensors are so small that several only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def training_mode(module: nn.Module) -> Iterator[None]:
    """Train mode without dropout (nn.Dropout and its kin, nn.MultiheadAttention, recurrent layers); restored after."""
    modes = {part: part.training for part in module.modules()}
    rates: dict[nn.Module, str] = {part: "p" for part in modes if isinstance(part, DROPOUT)}
    rates |= {part: "dropout" for part in modes if isinstance(part, (nn.MultiheadAttention, nn.RNNBase))}
    before = {part: getattr(part, name) for part, name in rates.items()}
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        for part, name in rates.items():
            setattr(part, name, 0.0)
        module.train()
        yield
    finally:
        for part, name in rates.items():
            setattr(part, name, before[part])
        for part, mode in modes.items():
            part.training = mode
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)  # statistics of batch norm


def perturb(module: nn.Module, seed: int) -> None:
    """Move every parameter by seeded noise, so that gates that start at 0 are open."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            size = 0.3 if parameter.ndim < 2 else 0.5 / parameter[0].numel() ** 0.5
            parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(parameter))


@contextmanager
def named_errors(subject: Subject, what: str) -> Iterator[None]:
    """Say what was tried when the checked code itself raises."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{subject.name}: {what} raises {type(error).__name__}: {error}") from error


def weighted_sum(scores: Tensor) -> Tensor:
    """A stand-in for losses, which leave out the -inf of blank videos."""
    weights = torch.randn(scores.shape, generator=torch.Generator().manual_seed(7))
    return torch.where(scores == float("-inf"), 0.0, scores * weights).sum()


def name_of(checked: object) -> str:
    """The name of a class, an instance or a factory."""
    kind = getattr(checked, "func", checked)  # of a functools.partial
    return str(getattr(kind, "__name__", type(kind).__name__))
