"""Amounts of memory, as users write them and as the system tells them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muvr_train import memory
from muvr_train.errors import ConfigError
from muvr_train.memory import free_bytes, is_bytes, parse_bytes

GOOD = {
    "2GB": 2 * 10**9,
    "1.5 gb": 15 * 10**8,
    "3g": 3 * 10**9,
    "500MiB": 500 * 2**20,
    "7": 7,
    "12 B": 12,
    9: 9,
    2e9: 2 * 10**9,
}


@pytest.mark.parametrize(("text", "size"), GOOD.items())
def test_sizes_with_and_without_units(text, size):
    assert is_bytes(text)
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "2 XB", "-1", "0", "0.2", "1e3", "2GBs", True, float("nan"), float("inf"), -5]
)
def test_what_is_no_size_is_refused(text):
    assert not is_bytes(text)
    with pytest.raises(ConfigError, match="memory_budget="):
        parse_bytes(text)


def test_neither_nothing_nor_a_list_is_a_size():
    assert not is_bytes(None)
    assert not is_bytes([1])


def test_free_memory_is_some_of_what_the_machine_has():
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 2**20 < free_bytes() < total


def test_a_control_group_may_allow_less(tmp_path: Path):
    assert memory._left_in_group(tmp_path) == []
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._left_in_group(tmp_path) == []
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._left_in_group(tmp_path) == [700]
    (tmp_path / "memory.max").write_text("200\n")
    assert memory._left_in_group(tmp_path) == [0]
