"""Parameters that a run leaves as they are, because all that they do is seen by none of its losses."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from torch import nn

from muvr_train.benchmarks.expressions import Or, sign_of
from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.losses.composite import CompositeLoss
from muvr_train.models.fusion.base import FusionHead
from muvr_train.processes import SINGLE, Group

log = logging.getLogger(__name__)


def leave_unseen(head: FusionHead, loss: CompositeLoss, group: Group = SINGLE) -> None:
    """Take a head's `row_offsets` out of training where no loss on the fused score sees them.

    Their gradient is 0 but for rounding, which AdamW would make steps of the whole learning rate of.
    """
    if not loss.sees_offset({"fused"}):
        _leave(head, head.row_offsets(), group)


def leave_unseen_threshold(head: FusionHead, loss: CompositeLoss, training: Benchmark, group: Group = SINGLE) -> None:
    """Take the threshold of tags out of training where no loss sees what it adds.

    It adds the same to all scores of a query, unless a tag expression asks for one of several conditions that are not
    all of one sign.
    """
    own = type(head).tag_scores is FusionHead.tag_scores and isinstance(head.tag_threshold, nn.Parameter)
    rows = [row.expression for partition in training.partitions for row in filter_rows(partition)]
    mixed = any(isinstance(one, Or) and sign_of(one) == "mixed" for one in rows)
    if own and rows and not mixed and not loss.sees_offset({"fused", "tags"}):
        _leave(head, [head.get_parameter("tag_threshold")], group)


def _leave(head: FusionHead, parameters: Iterable[nn.Parameter], group: Group) -> None:
    chosen = {id(parameter) for parameter in parameters if parameter.requires_grad}
    names = [name for name, parameter in head.named_parameters() if id(parameter) in chosen]
    for name in names:
        head.get_parameter(name).requires_grad_(False)
    if names and group.is_first:
        log.info("not trained, as no loss of this run sees what they do: head.%s", ", head.".join(names))
