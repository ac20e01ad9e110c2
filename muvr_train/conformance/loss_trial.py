"""One loss and a batch with rows of every kind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject
from muvr_train.losses.base import Loss, LossValue

ROWS, COLUMNS = 7, 10


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
        given = {"scores": case.scores, "relevance": case.relevance, **case.extras}
        before = {name: value.detach().clone() for name, value in given.items()}
        result = self.loss.compute(case.scores, case.relevance, dict(case.extras))
        for name, value in before.items():
            same = torch.equal(value, given[name].detach())
            self.subject.require(same, f"changes its {name} in place, which the losses beside it read")
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

    def describe(self, place: int) -> str:
        """What pairs a row has, for messages."""
        row = self.case.relevance[place]
        return f"{int((row == 1).sum())} positives, {int((row == 0).sum())} negatives"

    def require_same(self, result: LossValue, case: Case, problem: str) -> None:
        """Another case must give the same loss."""
        expected, actual = result.value.detach(), self.compute(case, "a batch").value.detach()
        self.subject.require(
            bool(torch.isclose(expected, actual, rtol=1e-5, atol=1e-6)),
            f"{problem}: the loss is {float(expected):.6g} or {float(actual):.6g}",
        )
