"""The plan of the copies benchmark: what matches follows from what is composed, and no split sees another's sources."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.copies import CopiesPlan, plan_copies, relation
from muvr_train.benchmarks.copies_draw import CopiesSettings, jitter_segment
from muvr_train.benchmarks.copies_edits import strong_edits
from muvr_train.benchmarks.copies_recipes import Edit, Piece, Recipe
from muvr_train.benchmarks.leakage import drop_leaks, find_leaks
from muvr_train.benchmarks.splits import apply_splits, split_by_fold
from muvr_train.errors import ConfigError, DataError

NAMES = [f"clip {number}" for number in range(20)]
NAMES_SORTED = sorted(NAMES)


def sources_of(recipes) -> set[str]:
    return {source for recipe in recipes for piece in recipe.pieces for source, _, _ in piece.shown()}


def test_the_plan_depends_on_names_and_seed_and_not_on_their_order() -> None:
    shuffled = random.Random(1).sample(NAMES, len(NAMES))
    assert plan_copies(shuffled).digest == plan_copies(NAMES).digest
    assert plan_copies(NAMES, seed=1).digest != plan_copies(NAMES).digest
    assert plan_copies(NAMES, seed=1).sources == plan_copies(NAMES).sources


def test_another_process_with_other_hashes_draws_the_same_plan() -> None:
    program = (
        "from muvr_train.benchmarks.copies import plan_copies as p; print(p([f'clip {n}' for n in range(20)]).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == plan_copies(NAMES).digest


def test_json_round_trip() -> None:
    plan = plan_copies(NAMES, settings=CopiesSettings(intros=True))
    again = CopiesPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.digest == plan.digest
    with pytest.raises(DataError, match="no plan of a copies benchmark"):
        CopiesPlan.from_json({"seed": 0})


@pytest.mark.parametrize("intros", [False, True])
def test_every_split_is_made_of_its_own_sources_and_cards(intros: bool) -> None:
    plan = plan_copies(NAMES, settings=CopiesSettings(intros=intros))
    cards = {}
    parts = {"train": plan.train, **{split: (*plan.queries[split], *plan.database[split]) for split in ("val", "test")}}
    for split, recipes in parts.items():
        assert sources_of(recipes) <= set(plan.names(split))
        cards[split] = {piece.source for recipe in recipes for piece in recipe.pieces if piece.card}
        assert bool(cards[split]) == intros
    assert not cards["train"] & cards["test"]
    assert not cards["val"] & cards["test"]
    ids = [(recipe.id, recipe.stream) for recipe in plan.recipes]
    assert len(set(ids)) == len(ids)


def test_training_videos_of_the_benchmark_are_exactly_the_training_sources() -> None:
    plan = plan_copies(NAMES)
    train = plan.benchmark().select("train", "split")
    assert sorted(train.video_ids) == [f"copies/{name}" for name in plan.names("train")]
    assert {recipe.id for recipe in plan.train} == set(train.video_ids)
    assert {recipe.stream for recipe in plan.train} == {"video", "view1", "view2"}


def test_topic_splits_and_the_leakage_check_leave_the_plan_as_it_is() -> None:
    plan = plan_copies(NAMES, fractions=(0.5, 0.2, 0.3))
    benchmark = plan.benchmark()
    assert apply_splits(benchmark, "topic", (0.5, 0.2, 0.3)).queries == benchmark.queries
    assert apply_splits(benchmark, "annotation").queries == benchmark.queries
    report = find_leaks(benchmark)
    assert not report
    assert drop_leaks(benchmark, report).queries == benchmark.queries


def test_galleries_are_disjoint_and_every_query_has_several_matches_and_non_matches() -> None:
    plan = plan_copies(NAMES)
    val, test = (plan.benchmark().select(split) for split in ("val", "test"))
    assert not set(val.video_ids) & set(test.video_ids)
    for part in (val, test):
        for judgement in part.judgements:
            assert judgement.counted
            assert sum(level == "copy" for level in judgement.positives.values()) >= 2
            assert judgement.negatives
            assert judgement.listed == set(part.partitions[0].database)


def test_relation_follows_from_what_is_shown() -> None:
    query = Recipe("q", (Piece("card", 0, 1, 3, card=True), Piece("a", 0.2, 0.6, 8)))
    host = Edit("inset", {"host": "a", "host_start": 0.5, "host_stop": 0.7})
    assert relation(query, Recipe("v", (Piece("b", 0.2, 0.6, 8),))) is None
    assert relation(query, Recipe("v", (Piece("b", 0, 1, 8), Piece("a", 0.5, 0.9, 8)))) == "event"  # 0.1 of 0.4
    assert relation(query, Recipe("v", (Piece("a", 0.7, 0.9, 8), Piece("a", 0.1, 0.4, 8)))) == "copy"
    assert relation(query, Recipe("v", (Piece("a", 0.6, 0.9, 8),))) == "event"
    assert relation(query, Recipe("v", (Piece("b", 0.0, 0.1, 8, (host,)),))) == "copy"
    assert relation(query, Recipe("v", (Piece("a", 0.0, 1.0, 8, card=True),))) is None


def test_every_planned_copy_of_a_query_is_a_copy() -> None:
    plan = plan_copies(NAMES)
    videos = {video.id: video for video in plan.database["test"]}
    for query in plan.queries["test"]:
        for copy in range(plan.settings.copies):
            assert relation(query, videos[f"{query.id.replace('@query', '@copy')}-{copy}"]) == "copy"


def test_cuts_of_one_upload_stay_in_one_split() -> None:
    cuts = [f"talk_00.0{minute}.00-00.0{minute}.30" for minute in range(5)]
    plan = plan_copies([*cuts, *NAMES])
    assert len({plan.sources[cut] for cut in cuts}) == 1
    assert not find_leaks(plan.benchmark())


@pytest.mark.parametrize(
    ("names", "fractions", "told"),
    [
        ([], (0.6, 0.2, 0.2), "0 usable videos"),
        (["a"], (0.6, 0.2, 0.2), "1 usable video gives"),
        (list("abcdef"), (0.6, 0.2, 0.2), "4 for train, 1 for val and 1 for test; each needs at least 2"),
        (["a", "b", "a"], (0.6, 0.2, 0.2), "named twice: a"),
    ],
)
def test_too_few_or_doubled_videos_are_refused(names: list[str], fractions: tuple[float, ...], told: str) -> None:
    with pytest.raises(DataError, match=told):
        plan_copies(names, 0, fractions)


def test_six_videos_are_enough_and_settings_are_checked() -> None:
    plan = plan_copies(list("abcdef"), 0, (0.34, 0.33, 0.33))
    assert [len(plan.names(split)) for split in ("train", "val", "test")] == [2, 2, 2]
    assert any(judgement.negatives for judgement in plan.benchmark().select("test").judgements)
    assert plan_copies(list("abcd"), 0, (0.5, 0.0, 0.5)).names("val") == []
    with pytest.raises(ConfigError, match="queries must be a whole number of at least 1, got 0"):
        CopiesSettings(queries=0)


@given(st.integers(0, 10**6), st.floats(0, 0.6), st.floats(0.05, 0.4))
def test_segments_stay_inside_and_overlap(seed: int, start: float, length: float) -> None:
    low, high = jitter_segment(random.Random(seed), start, start + length)
    assert 0 <= low < high <= 1
    shared = min(high, start + length) - max(low, start)
    assert shared >= 0.3 * min(length, high - low)


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_edits_are_plain_data(seed: int, frames: int) -> None:
    for edit in strong_edits(random.Random(seed), frames):
        assert json.loads(json.dumps(dict(edit.settings))) == edit.settings


def test_folds_test_every_source_once_and_agree_with_the_folds_of_any_benchmark() -> None:
    plans = [plan_copies(NAMES, folds=4, fold=fold) for fold in range(4)]
    tested = [name for plan in plans for name in plan.names("test")]
    assert sorted(tested) == NAMES_SORTED
    for fold, plan in enumerate(plans):
        assert plan.names("val") == plans[(fold + 1) % 4].names("test")
        assert len(plan.names("train")) == 10
        assert split_by_fold(plan.benchmark(), 4, fold).queries == plan.benchmark().queries
        assert CopiesPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    shuffled = random.Random(1).sample(NAMES, len(NAMES))
    assert plan_copies(shuffled, folds=4, fold=2).digest == plans[2].digest
    assert len({plan.digest for plan in plans}) == 4


def test_folds_keep_cuts_of_one_upload_together_and_cards_of_test_out_of_training() -> None:
    cuts = [f"talk_00.0{minute}.00-00.0{minute}.30" for minute in range(5)]
    for fold in range(3):
        plan = plan_copies([*cuts, *NAMES], settings=CopiesSettings(intros=True), folds=3, fold=fold)
        assert len({plan.sources[cut] for cut in cuts}) == 1
        test = (*plan.queries["test"], *plan.database["test"])
        cards = [{p.source for r in part for p in r.pieces if p.card} for part in (plan.train, test)]
        assert all(cards)
        assert not cards[0] & cards[1]
        assert sources_of(plan.train).isdisjoint(sources_of(test))


def test_galleries_of_a_fixed_size_are_filled_with_distractors() -> None:
    names = [f"clip {number}" for number in range(22)]  # 4 folds of 6, 6, 5 and 5 sources: 36 or 30 matches
    for fold in range(4):
        plan = plan_copies(names, settings=CopiesSettings(gallery=50), folds=4, fold=fold)
        for split in ("val", "test"):
            database = plan.database[split]
            matches = [video for video in database if "@copy" in video.id]
            assert len({video.id for video in database}) == len(database) == 50
            assert len(matches) == 6 * len(plan.names(split))
        usual = plan_copies(names, folds=4, fold=fold)
        assert plan.queries == usual.queries
        assert plan.train == usual.train
    exact = plan_copies(names, settings=CopiesSettings(gallery=36), folds=11, fold=0)  # 2 sources: 12 matches
    assert {len(database) for database in exact.database.values()} == {36}
    assert CopiesPlan.from_json(exact.to_json()) == exact


@pytest.mark.parametrize(
    ("settings", "folds", "fold", "told"),
    [
        ({"gallery": 29}, 4, 0, r"gallery=29, but 5 val videos have 30 matches; give at least 30"),
        ({}, 2, 0, "needs folds >= 3"),
        ({}, 4, 4, r"folds=4, fold=4"),
        ({}, 4, None, r"give both or none"),
    ],
)
def test_impossible_folds_and_galleries(settings: dict, folds: int, fold: int | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan_copies(NAMES, settings=CopiesSettings(**settings), folds=folds, fold=fold)


def test_folds_of_one_video_and_galleries_of_one_upload_are_refused() -> None:
    with pytest.raises(DataError, match="Add videos: it takes at least 6"):
        plan_copies(list("abcd"), folds=4, fold=0)
    cuts = [f"{name}_00.0{minute}.00-00.0{minute}.30" for name in ("a", "b", "c") for minute in range(3)]
    with pytest.raises(DataError, match="one upload only"):
        plan_copies(cuts, settings=CopiesSettings(gallery=40), folds=3, fold=0)
    assert len(plan_copies(cuts, settings=CopiesSettings(gallery=18), folds=3, fold=0).database["test"]) == 18


def test_plans_of_before_folds_are_read_and_unchanged() -> None:
    assert plan_copies(NAMES).digest == "da21f42fa21a204a00076ea1f7d7732259388bd11d65a8daf662dc0aaeb64c77"
