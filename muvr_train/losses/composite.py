"""A named, weighted sum of losses."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue
from muvr_train.names import hint, nearest_names
from muvr_train.own_code import check_shape, described, is_own, named

OPTIONAL_PARTS = frozenset({"video", "text", "tags"})
"""Parts that a batch or a store may lack; a loss on them is then skipped."""


@dataclass(frozen=True)
class LossReport:
    """What a composite loss gives.

    Attributes:
        total: scalar with a graph: sum of weight * value.
        values: unweighted value of each loss by name, detached.
        skipped: rows that each loss left out: no positive (negative), or a query without the part.
        rows: rows that each loss is a mean over.
    """

    total: Tensor
    values: dict[str, Tensor]
    skipped: dict[str, int]
    rows: dict[str, int]


class CompositeLoss(nn.Module):
    """Sum of weight * loss over named losses, each on the scores that it declares.

    Rows of queries that lack the part of a loss (extra `present/<part>`) are left out of that loss. A part may have a
    relevance of its own (extra `relevance/<part>`, [Q, N]), which then takes the place of the other. Partial matches
    (relevance between 0 and 1) are not judged, -1, to a loss that is not `soft`.

    Args:
        losses: by name; null switches one off.
        weights: by the same names; 1 where not given.

    Raises:
        ConfigError: for a weight without a loss, a negative weight, or no loss at all.
    """

    def __init__(self, losses: Mapping[str, Loss | None], weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        given = dict(weights or {})
        for name in given:
            if name not in losses:
                near = difflib.get_close_matches(str(name), [str(known) for known in losses], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; the losses are {', '.join(losses)}"
                raise ConfigError(f"loss.weights.{name}: there is no loss of this name{hint}")
            if given[name] < 0:
                raise ConfigError(f"loss.weights.{name}={given[name]}: must be >= 0")
        self.losses = nn.ModuleDict({name: loss for name, loss in losses.items() if loss is not None})
        if not self.losses:
            raise ConfigError("loss.losses is empty: name at least one loss")
        self.weights = {name: float(given.get(name, 1.0)) for name in self.losses}

    @property
    def needs(self) -> frozenset[str]:
        """Names of all extras that the losses read."""
        return frozenset().union(*(loss.needs for loss in self._named().values()))

    def sees_offset(self, parts: Collection[str]) -> bool:
        """Whether a loss on one of these scores may see a number that is added to all scores of a row."""
        own = type(self).forward is CompositeLoss.forward
        seen = (one.sees_offset and one.on in parts and self.weights[name] > 0 for name, one in self._named().items())
        return not own or any(seen)

    def _named(self) -> dict[str, Loss]:
        return {name: loss for name, loss in self.losses.items() if isinstance(loss, Loss)}

    def forward(self, scores: Mapping[str, Tensor], relevance: Tensor, extras: dict[str, Tensor]) -> LossReport:
        """Compute every loss.

        Args:
            scores: float [Q, N] by name: "fused" and the parts of the batch.
            relevance: int or float [Q, N]: 1, 0, -1, or between 0 and 1.
            extras: tensors by name, first dimension Q.
        """
        results = {name: self._one(name, scores, relevance, extras) for name in self._named()}
        terms = [self.weights[name] * result.value for name, result in results.items()]
        return LossReport(
            torch.stack(terms).sum(),
            {name: result.value.detach() for name, result in results.items()},
            {name: result.skipped for name, result in results.items()},
            {name: result.rows for name, result in results.items()},
        )

    def _one(self, key: str, scores: Mapping[str, Tensor], relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        loss = self._named()[key]
        if loss.on not in scores:
            if loss.on in OPTIONAL_PARTS:
                some = next(iter(scores.values()))
                return LossValue(some[:0].float().sum(), 0, len(relevance))
            raise unknown_scores(key, loss.on, scores)
        missing = loss.needs - extras.keys()
        if missing:
            raise ConfigError(
                f"loss.losses.{key}: {type(loss).__name__} needs {', '.join(sorted(missing))}, which the model does "
                "not give"
            )
        relevance = extras.get(f"relevance/{loss.on}", relevance)
        if not loss.soft:
            relevance = relevance.masked_fill((relevance > 0) & (relevance < 1), -1)
        present = extras.get(f"present/{loss.on}")
        if present is None or bool(present.all()):
            return computed(key, loss, scores[loss.on], relevance, extras)
        rows = {name: extras[name][present] for name in loss.needs}
        result = computed(key, loss, scores[loss.on][present], relevance[present], rows)
        return LossValue(result.value, result.rows, result.skipped + int((~present).sum()))


class LossError(ConfigError):
    """A loss of the user's own has raised something."""


def unknown_scores(key: str, on: object, scores: Iterable[str]) -> ConfigError:
    """Say that a loss is on scores that there are not, and on which it can be."""
    known = list(dict.fromkeys((*scores, *sorted(OPTIONAL_PARTS, reverse=True))))
    near = hint(nearest_names(str(on), known))
    if on == "region":
        near = "; a region stands in the place of its query's video, so give on=video or on=fused"
    return ConfigError(f"loss.losses.{key}.on={on}: there are no such scores, choose {' | '.join(known)}{near}")


def computed(key: str, loss: Loss, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
    """Compute a loss, and name it in what goes wrong.

    Raises:
        ConfigError: it gives no value of one number; of a loss of the user's own also, it fails.
    """
    what = f"loss.losses.{key}: {type(loss).__name__}"
    with named(f"{what} fails in compute", is_own(type(loss)), LossError):
        result: object = loss.compute(scores, relevance, extras)
    if not isinstance(result, LossValue):
        raise ConfigError(
            f"{what}.compute must give a LossValue (losses.base.mean_over_rows makes one), and gave {described(result)}"
        )
    check_shape(f"{what}.compute", "a value that is one number", result.value, ())
    return result
