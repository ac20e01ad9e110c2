"""The check of losses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, named_errors, one_thread, perturb
from muvr_train.conformance.loss_trial import COLUMNS, ROWS, Case, LossTrial
from muvr_train.losses.base import Loss

LossFactory = Callable[..., Loss]
HUGE = 1e4


@one_thread()
def check_loss(
    loss: Loss | LossFactory,
    *,
    extras: Mapping[str, Tensor] | None = None,
    direction: bool | None = None,
    seed: int = 0,
) -> None:
    """Check that a loss keeps its promises on random scores and relevance with rows of every kind.

    The value must be a finite float32 scalar with a graph, for rows without positives, without negatives, without any
    judged pair, for one column, for none, for no row, for huge scores and for scores in half precision; pairs of
    relevance -1 and those of a blank video, whose score is -inf, must not count; in a plain batch it must pull scores
    of matches up and push others down, in a `soft` loss more so the less they match; the order of rows and columns must
    not count, nor, where a loss says that it does not see it, one number added to all scores of a row; every row must
    be counted as used or as skipped, and a skipped one must change nothing and get no gradient. Learned parameters must
    get gradients. Scores, relevance and extras must stay as they are.

    Args:
        loss: a class or function that is called without arguments, or one loss.
        extras: further extras that it needs, of 7 rows (and 10 columns); `range_excess`, `self`, `teacher` and
            `teacher/<part>` are there.
        direction: check the direction of gradients; by default where the loss needs no extras.
        seed: of the scores.

    Raises:
        AssertionError: a promise is broken; the message says which and shows the numbers.
    """
    made = copy.deepcopy(loss) if isinstance(loss, Loss) else loss()
    subject = Subject(name_of(loss))
    subject.require(isinstance(made, Loss), f"it is a {type(made).__name__}, no Loss")
    trial = LossTrial(made, subject, dict(extras or {}), seed)
    with named_errors(subject, "computing the loss"):
        check_values(trial)
        check_ignored(trial)
        check_order(trial)
        check_blank(trial)
        check_offset(trial)
        check_skipped(trial)
        if not made.needs if direction is None else direction:
            check_direction(trial)
    with named_errors(subject, "training"):
        perturb(made, seed)
        check_parameters(trial)


def check_values(trial: LossTrial) -> None:
    """Finite values and gradients in the degenerate cases."""
    case, everything = trial.case, torch.arange(COLUMNS)
    kinds = ("with all kinds of pairs", "without positives", "without negatives", "without a judged pair")
    for place, kind in enumerate(kinds):
        trial.gradient(case.rows(torch.tensor([place])), f"a row {kind}")
    trial.gradient(case, "a batch")
    trial.gradient(case.columns(everything[:1]), "one column")
    trial.gradient(case.columns(everything[:0]), "no column")
    trial.gradient(case.rows(everything[:0]), "no row")
    for size in (HUGE, -HUGE):
        trial.gradient(case.scored(case.scores * size), f"scores of size {HUGE:g}")
        trial.gradient(case.scored(torch.full_like(case.scores, size)), f"scores that are all {size:g}")
    trial.gradient(case.scored(torch.zeros_like(case.scores)), "scores that are all 0")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trial.gradient(case.scored(case.scores.bfloat16()), "scores in bfloat16 under autocast")
    if trial.loss.soft:
        soft = Case(case.scores, case.relevance * 0.5 + 0.25 * (case.relevance > 0), case.extras)
        trial.gradient(soft, "partial matches")
    nothing = trial.compute(case.rows(torch.tensor([3, 3])), "rows without a judged pair")
    if not trial.loss.needs:
        value = float(nothing.value.detach())
        trial.subject.require(value == 0 and nothing.rows == 0, f"rows without a judged pair give {value:.6g}, not 0")


def check_ignored(trial: LossTrial) -> None:
    """Pairs of relevance -1 count for nothing."""
    unjudged = trial.case.relevance < 0
    result, gradient = trial.gradient(trial.case, "a batch")
    largest = float(gradient[unjudged].abs().max())
    trial.subject.require(largest == 0, f"the gradient of pairs that are not judged (-1) is up to {largest:.3g}, not 0")
    moved = torch.where(unjudged, 0.9 - trial.case.scores, trial.case.scores)
    trial.require_same(result, trial.case.scored(moved), "counts pairs that are not judged (-1)")


def check_blank(trial: LossTrial) -> None:
    """A video without a real frame scores -inf: its pairs teach nothing, and change nothing."""
    for place in range(2):
        blank = torch.arange(COLUMNS) == place
        infinite = torch.where(blank, float("-inf"), trial.case.scores)
        result, gradient = trial.gradient(trial.case.scored(infinite), "scores of -inf (a blank video)")
        largest = float(gradient[:, place].abs().max())
        trial.subject.require(largest == 0, f"the gradient of scores of -inf is up to {largest:.3g}, not 0")
        unjudged = trial.case.relevance.masked_fill(blank, -1)
        trial.require_same(
            result,
            Case(infinite.masked_fill(blank, 0.0), unjudged, trial.case.extras),
            "counts pairs of a blank video (-inf), which must count as not judged",
        )
    trial.gradient(trial.case.scored(torch.full_like(trial.case.scores, float("-inf"))), "scores that are all -inf")


def check_offset(trial: LossTrial) -> None:
    """A loss that says that it does not see a number that is added to all scores of a row does not."""
    if not trial.loss.sees_offset:
        result, offsets = trial.compute(trial.case, "a batch"), torch.linspace(-0.5, 0.5, ROWS)[:, None]
        moved = trial.case.scored(trial.case.scores + offsets)
        trial.require_same(result, moved, "says sees_offset = False, but sees one number added to all scores of a row")


def check_direction(trial: LossTrial) -> None:
    """Scores of matches are pulled up and those of others pushed down, more so the less they match."""
    low, high = torch.linspace(0.1, 0.5, 4), torch.linspace(0.55, 0.85, COLUMNS - 4)
    scores = torch.stack([torch.cat([low, high]).roll(row)[torch.arange(COLUMNS) * 3 % COLUMNS] for row in range(ROWS)])
    relevance = (scores < 0.52).float()
    _, gradient = trial.gradient(Case(scores, relevance, trial.case.extras), "a plain batch")
    pull, push = (float(gradient[relevance == kind].sum()) for kind in (1, 0))
    says = f"the gradient of scores sums to {pull:.3g} over matches (may not be > 0) and {push:.3g} over others"
    hint = "(direction=False if that is meant)"
    trial.subject.require(pull <= 0 <= push, f"teaches the wrong way: {says} (may not be < 0) {hint}")
    trial.subject.require(pull != 0 or push != 0, f"teaches nothing in a plain batch: {says} {hint}")
    if not trial.loss.soft:
        return
    degrees, slopes = (0.1, 0.3, 0.6, 0.9), []
    for degree in degrees:
        partial = relevance.clone()
        partial[:, 2] = degree
        _, gradient = trial.gradient(Case(scores, partial, trial.case.extras), "partial matches")
        slopes.append(float(gradient[:, 2].sum()))
    falls = all(more > less for more, less in pairwise(slopes))
    found = ", ".join(f"{slope:.3g}" for slope in slopes)
    trial.subject.require(
        falls,
        f"says soft = True, but does not read partial matches: the gradient of scores of relevance 0.1, 0.3, 0.6 and "
        f"0.9 must fall, got {found} {hint}",
    )


def check_order(trial: LossTrial) -> None:
    """The order of rows and columns counts for nothing."""
    generator, result = torch.Generator().manual_seed(3), trial.compute(trial.case, "a batch")
    rows, columns = (torch.randperm(size, generator=generator) for size in (ROWS, COLUMNS))
    trial.require_same(result, trial.case.rows(rows), "depends on the order of the rows")
    trial.require_same(result, trial.case.columns(columns), "depends on the order of the columns")
    trial.require_same(result, trial.case, "is not deterministic")


def check_skipped(trial: LossTrial) -> None:
    """A row is used or skipped, and a skipped one changes nothing."""
    result, gradient = trial.gradient(trial.case, "a batch")
    for place in range(ROWS):
        others = torch.arange(ROWS) != place
        without = trial.compute(trial.case.rows(others), "a batch")
        if result.skipped == without.skipped:
            continue
        name = f"row {place} ({trial.describe(place)}) is counted as skipped"
        largest = float(gradient[place].abs().max())
        trial.subject.require(largest == 0, f"{name}, but its scores get a gradient of up to {largest:.3g}")
        trial.require_same(result, trial.case.rows(others), f"{name}, but it changes the loss")


def check_parameters(trial: LossTrial) -> None:
    """Gradients reach the loss's own parameters."""
    leaf = trial.case.scored(trial.case.scores.clone().requires_grad_())
    trial.subject.require_gradients(trial.loss, lambda: trial.compute(leaf, "a batch").value, reach_all=True)
