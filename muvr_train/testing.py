"""Checks for the tests of your own fusion heads, similarity networks and losses.

from muvr_train.testing import check_fusion_head

def test_my_head():
    check_fusion_head(MyHead)
"""

from muvr_train.conformance.heads import check_fusion_head

__all__ = ["check_fusion_head"]
