"""Checks for the tests of your own fusion heads, similarity networks and losses.

from muvr_train.testing import check_fusion_head

def test_my_head():
    check_fusion_head(MyHead)
"""

from muvr_train.conformance.heads import check_fusion_head
from muvr_train.conformance.losses import check_loss
from muvr_train.conformance.networks import check_network

__all__ = ["check_fusion_head", "check_loss", "check_network"]
