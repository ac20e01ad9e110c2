"""The check of losses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, named_errors, one_thread, perturb
from muvr_train.losses.base import Loss, LossValue

LossFactory = Callable[..., Loss]
ROWS, COLUMNS = 7, 10
HUGE = 1e4


@dataclass(frozen=True)
class Case:
    """What a loss is called with."""

    scores: Tensor
    relevance: Tensor
    extras: dict[str, Tensor]

    def rows(self, chosen: Tensor) -> Case:
        """Some rows (queries)."""
        return Case(self.scores[chosen], self.relevance[chosen], {k: v[chosen] for k, v in self.extras.items()})

    def columns(self, chosen: Tensor) -> Case:
        """Some columns (database videos)."""
        extras = {name: value if value.ndim == 1 else value[:, chosen] for name, value in self.extras.items()}
        return Case(self.scores[:, chosen], self.relevance[:, chosen], extras)

    def scored(self, scores: Tensor) -> Case:
        """Other scores."""
        return Case(scores, self.relevance, self.extras)


@one_thread()
def check_loss(loss: Loss | LossFactory, *, extras: Mapping[str, Tensor] | None = None, seed: int = 0) -> None:
    """Check that a loss keeps its promises on random scores and relevance with rows of every kind.

    The value must be a finite float32 scalar with a graph, for rows without positives, without negatives, without any
    judged pair, for one column, for none, for no row, for huge scores and for scores in half precision; pairs of
    relevance -1 must not count; the order of rows and columns must not; every row must be counted as used or as
    skipped, and a skipped one must change nothing and get no gradient. Learned parameters must get gradients.

    Args:
        loss: a class or function that is called without arguments, or one loss.
        extras: further extras that it needs, of 7 rows (and 10 columns); `range_excess`, `self`, `teacher` and
            `teacher/<part>` are there.
        seed: of the scores.

    Raises:
        AssertionError: a promise is broken; the message says which and shows the numbers.
    """
    made = copy.deepcopy(loss) if isinstance(loss, Loss) else loss()
    subject = Subject(name_of(loss))
    subject.require(isinstance(made, Loss), f"it is a {type(made).__name__}, no Loss")
    trial = LossTrial(made, subject, dict(extras or {}), seed)
    with named_errors(subject, "computing the loss"):
        trial.check_values()
        trial.check_ignored()
        trial.check_order()
        trial.check_skipped()
    with named_errors(subject, "training"):
        perturb(made, seed)
        trial.check_parameters()


class LossTrial:
    """One loss and a batch with rows of every kind.

    Args:
        loss: what is checked.
        subject: its name.
        extras: further extras, see `check_loss`.
        seed: of the scores.
    """

    def __init__(self, loss: Loss, subject: Subject, extras: dict[str, Tensor], seed: int) -> None:
        self.loss, self.subject = loss, subject
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator) * 2 - 1

        scores = uniform(ROWS, COLUMNS)
        relevance = torch.randint(-1, 2, (ROWS, COLUMNS), generator=generator).float()
        relevance[0, :3] = torch.tensor([1.0, 0.0, -1.0])
        relevance[1] = relevance[1].clamp(max=0)  # no positive
        relevance[2] = torch.where(relevance[2] == 0, 1.0, relevance[2])  # no negative
        relevance[3] = -1.0  # nothing judged
        relevance[4] = torch.where(relevance[4] == 1, 0.0, relevance[4])
        relevance[4, 0] = 1.0  # one positive
        known = {"range_excess": uniform(ROWS, COLUMNS).clamp(min=0), "self": uniform(ROWS), **extras}
        known |= {name: uniform(ROWS, COLUMNS) for name in loss.needs if name.split("/")[0] == "teacher"}
        missing = sorted(loss.needs - known.keys())
        subject.require(not missing, f"needs the extras {missing}: give them to check_loss(extras=...)")
        self.case = Case(scores, relevance, {name: known[name] for name in sorted(loss.needs)})

    def compute(self, case: Case, what: str) -> LossValue:
        """The loss of a case, checked for its form."""
        result = self.loss.compute(case.scores, case.relevance, case.extras)
        self.subject.require(isinstance(result, LossValue), f"compute must give a LossValue, got {type(result)}")
        self.subject.require_matrix(result.value, (), f"the value for {what}")
        counted = result.rows + result.skipped
        self.subject.require(
            counted == len(case.scores) and min(result.rows, result.skipped) >= 0,
            f"rows={result.rows} and skipped={result.skipped} must add up to the {len(case.scores)} rows for {what}",
        )
        return result

    def gradient(self, case: Case, what: str) -> tuple[LossValue, Tensor]:
        """The loss and its gradient to the scores (zeros where it does not read them)."""
        leaf = case.scores.clone().requires_grad_()
        extras = {name: value.clone().requires_grad_() for name, value in case.extras.items()}
        result = self.compute(Case(leaf, case.relevance, extras), what)
        self.subject.require(result.value.requires_grad, f"the value for {what} has no graph: backward() would fail")
        result.value.backward()  # type: ignore[no-untyped-call]
        for name, tensor in (("scores", leaf), *extras.items()):
            finite = tensor.grad is None or bool(torch.isfinite(tensor.grad).all())
            self.subject.require(finite, f"the gradient to {name} for {what} holds NaN or infinite entries")
        return result, torch.zeros_like(leaf) if leaf.grad is None else leaf.grad

    def check_values(self) -> None:
        """Finite values and gradients in the degenerate cases."""
        case, everything = self.case, torch.arange(COLUMNS)
        kinds = ("with all kinds of pairs", "without positives", "without negatives", "without a judged pair")
        for place, kind in enumerate(kinds):
            self.gradient(case.rows(torch.tensor([place])), f"a row {kind}")
        self.gradient(case, "a batch")
        self.gradient(case.columns(everything[:1]), "one column")
        self.gradient(case.columns(everything[:0]), "no column")
        self.gradient(case.rows(everything[:0]), "no row")
        for size in (HUGE, -HUGE):
            self.gradient(case.scored(case.scores * size), f"scores of size {HUGE:g}")
            self.gradient(case.scored(torch.full_like(case.scores, size)), f"scores that are all {size:g}")
        self.gradient(case.scored(torch.zeros_like(case.scores)), "scores that are all 0")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.gradient(case.scored(case.scores.bfloat16()), "scores in bfloat16 under autocast")
        if self.loss.soft:
            soft = Case(case.scores, case.relevance * 0.5 + 0.25 * (case.relevance > 0), case.extras)
            self.gradient(soft, "partial matches")
        nothing = self.compute(case.rows(torch.tensor([3, 3])), "rows without a judged pair")
        if not self.loss.needs:
            value = float(nothing.value.detach())
            self.subject.require(
                value == 0 and nothing.rows == 0, f"rows without a judged pair give {value:.6g}, not 0"
            )

    def check_ignored(self) -> None:
        """Pairs of relevance -1 count for nothing."""
        unjudged = self.case.relevance < 0
        result, gradient = self.gradient(self.case, "a batch")
        largest = float(gradient[unjudged].abs().max())
        self.subject.require(
            largest == 0, f"the gradient of pairs that are not judged (-1) is up to {largest:.3g}, not 0"
        )
        moved = torch.where(unjudged, 0.9 - self.case.scores, self.case.scores)
        self._require_same(result, self.case.scored(moved), "counts pairs that are not judged (-1)")

    def check_order(self) -> None:
        """The order of rows and columns counts for nothing."""
        generator, result = torch.Generator().manual_seed(3), self.compute(self.case, "a batch")
        rows, columns = (torch.randperm(size, generator=generator) for size in (ROWS, COLUMNS))
        self._require_same(result, self.case.rows(rows), "depends on the order of the rows")
        self._require_same(result, self.case.columns(columns), "depends on the order of the columns")
        self._require_same(result, self.case, "is not deterministic")

    def check_skipped(self) -> None:
        """A row is used or skipped, and a skipped one changes nothing."""
        result, gradient = self.gradient(self.case, "a batch")
        for place in range(ROWS):
            others = torch.arange(ROWS) != place
            without = self.compute(self.case.rows(others), "a batch")
            if result.skipped == without.skipped:
                continue
            name = f"row {place} ({self._describe(place)}) is counted as skipped"
            largest = float(gradient[place].abs().max())
            self.subject.require(largest == 0, f"{name}, but its scores get a gradient of up to {largest:.3g}")
            self._require_same(result, self.case.rows(others), f"{name}, but it changes the loss")

    def check_parameters(self) -> None:
        """Gradients reach the loss's own parameters."""
        leaf = self.case.scored(self.case.scores.clone().requires_grad_())
        self.subject.require_gradients(self.loss, lambda: self.compute(leaf, "a batch").value, reach_all=True)

    def _describe(self, place: int) -> str:
        row = self.case.relevance[place]
        return f"{int((row == 1).sum())} positives, {int((row == 0).sum())} negatives"

    def _require_same(self, result: LossValue, case: Case, problem: str) -> None:
        expected, actual = result.value.detach(), self.compute(case, "a batch").value.detach()
        self.subject.require(
            bool(torch.isclose(expected, actual, rtol=1e-5, atol=1e-6)),
            f"{problem}: the loss is {float(expected):.6g} or {float(actual):.6g}",
        )
