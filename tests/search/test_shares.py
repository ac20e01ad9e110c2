"""Scoring in several real processes: the bits of one process, every video read once, an error in one is one in all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.search.exhaustive import BLOCKS, SMALLEST_BLOCK, plan_blocks
from muvr_train.search.shares import share_blocks
from tests.parts import add_regions
from tests.search import shares_worker as worker
from tests.tagged import make_tagged
from tests.together import Raised, together


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shares") / "store"
    worker.write_store(path)
    return path


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("toy")
    annotations, features = make_tagged(root)
    (features / "news" / "t0q1.npy").unlink()  # a query without features
    (features / "news" / "d3.npy").unlink()  # a database video without features
    (features / "dance" / "t4q1_query_dict.pkl").unlink()  # a query without a text
    import_muvr(features, root / "store")
    add_regions(root / "store")
    return annotations, root / "store"


@pytest.fixture(scope="module")
def found(store: Path, toy: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    """What 1, 2 and 3 processes give, by rank."""
    folder = tmp_path_factory.mktemp("processes")
    with StoreWriter(folder / "poor", {"encoder": "test", "text_aligned": True}, "float32") as writer:
        full = FeatureStore(store)
        for name in (*worker.QUERIES, *worker.DATABASE[:40]):
            writer.add(name, full.array(name))
    arguments = store, folder / "poor", toy
    return together((1, 2, 3), folder / "run", worker.everything, *arguments)


@pytest.mark.parametrize("size", [2, 3])
def test_scores_are_the_same_bits_and_every_video_is_read_once(found, size):
    for key, expected in found[1][0]["scores"].items():
        ours = [one["scores"][key] for one in found[size]]
        if "read" not in str(key[-1]):
            assert expected.dtype == np.float32
            assert np.isfinite(expected).all()
            for scores in ours:
                np.testing.assert_array_equal(scores, expected)
            continue
        videos = key[1]
        assert sorted(expected) == sorted(worker.DATABASE[:videos])
        assert Counter(name for read in ours for name in read) == Counter(worker.DATABASE[:videos])
        if key[2] == worker.BLOCKS[0]:
            assert sum(bool(read) for read in ours) == min(size, videos), "nobody idles while there is work"


@pytest.mark.parametrize("size", [2, 3])
def test_every_number_of_an_evaluation_is_that_of_one_process(found, size):
    one = found[1][0]["results"]
    assert {name: len(rows) for name, (rows, _, _) in one.items()} == {
        "base": 9,
        "one video": 6,
        "tags": 21,
        "beside": 3 * 3 + 2 + 3,
        "calibrated": 9,
    }
    assert one["base"][0] != one["calibrated"][0]
    for other in found[size]:
        assert other["results"].keys() == one.keys()
        for name, content in one.items():
            assert other["results"][name] == content, name


@pytest.mark.parametrize("size", [2, 3])
def test_an_error_in_one_process_is_one_in_all(found, size):
    errors = [one["errors"] for one in found[size]]
    for name, words in {
        "a broken video": "cannot read é/",
        "a bug": "cannot read é/",
        "queries": "cannot read é/",
        "budget": "memory_budget=1 B is too small",
        "other features": "the processes find different features",
        "nothing": "no database video has features",
        "not a number": "not finite",
        "missing": "lacks features",
    }.items():
        for one in errors:
            assert isinstance(one[name], Raised), (name, one[name])
            assert words in one[name][1], name
    first, last = errors[0], errors[-1]
    assert last["a broken video"][0] == first["a broken video"][0] == "DataError"
    assert first["a broken video"][1].startswith(f"process {size - 1}: cannot read")
    assert last["a bug"][0] == "ZeroDivisionError"
    assert first["a bug"][:2] == ("DataError", f"process {size - 1}: ZeroDivisionError: {last['a bug'][1]}")
    assert first["budget"][:2] == last["budget"][:2]
    for name in ("a broken video", "budget", "missing"):
        assert sum(one[name].shown for one in errors) == 1, "one process tells, the others are silent"
    assert first["budget"][0] == "ConfigError"
    for one in errors:
        np.testing.assert_array_equal(one["good"], first["good"])


@given(st.lists(st.integers(1, 9), max_size=200), st.integers(1, 400), st.integers(1, 9))
def test_every_block_is_given_to_one_process_and_none_gets_much_more(lengths, limit, count):
    sizes = np.array(lengths, dtype=np.int64)
    blocks = plan_blocks(sizes, limit)
    shares = share_blocks(blocks, sizes, count)
    assert len(shares) == count
    given_out = sorted(place for own in shares for places in own for place in places.tolist())
    assert given_out == list(range(len(sizes)))
    costs = [[len(places) * sizes[places].max() for places in own] for own in shares]
    loads = [sum(own) for own in costs]
    largest = max((cost for own in costs for cost in own), default=0)
    assert max(loads) - min(loads) <= largest
    assert sum(not own for own in shares) == max(0, count - len(blocks))


def test_longest_blocks_are_given_out_first():
    sizes = np.array([7, 5, 4, 3, 3])
    shares = share_blocks([np.array([i]) for i in range(5)], sizes, 2)
    assert [[int(places[0]) for places in own] for own in shares] == [[0, 3], [1, 2, 4]]


@pytest.mark.parametrize("videos", [1, 31, 32, 33, 767, 768, 769, 10_700])
def test_there_are_enough_blocks_to_share_whatever_the_memory(videos):
    blocks = plan_blocks(np.ones(videos, dtype=np.int64), 10**12)
    assert len(blocks) == min(BLOCKS, -(-videos // SMALLEST_BLOCK))
    assert max(len(block) for block in blocks) - len(blocks[-1]) < max(SMALLEST_BLOCK, videos // BLOCKS)
