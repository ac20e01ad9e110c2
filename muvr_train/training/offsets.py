"""What only adds one number to all scores of a query is not trained by losses that do not see it."""

from __future__ import annotations

import logging

from muvr_train.losses.composite import CompositeLoss
from muvr_train.models.fusion.base import FusionHead
from muvr_train.processes import SINGLE, Group

log = logging.getLogger(__name__)


def leave_unseen(head: FusionHead, loss: CompositeLoss, group: Group = SINGLE) -> None:
    """Take a head's `row_offsets` out of training, and the threshold of tags where it does no more, if no loss sees it.

    Their gradient would be 0 but for rounding, which AdamW would make steps of the whole learning rate of.
    """
    head.learns_offsets = loss.sees_offset({"fused", "tags"})
    if loss.sees_offset({"fused"}):
        return
    chosen = {id(parameter) for parameter in head.row_offsets() if parameter.requires_grad}
    names = [name for name, parameter in head.named_parameters() if id(parameter) in chosen]
    for name in names:
        head.get_parameter(name).requires_grad_(False)
    if names and group.is_first:
        log.info("not trained, as no loss of this run sees what they do: head.%s", ", head.".join(names))
