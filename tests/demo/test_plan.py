"""The plan of the built-in corpus: counts, splits, words, cards, relations; nothing is rendered here."""

from collections import Counter
from dataclasses import replace
from math import gcd

import pytest

from muvr_train.benchmarks.splits import assign_splits
from muvr_train.demo.corpus import corpus_name
from muvr_train.demo.plan import make_plan
from muvr_train.demo.scenario import Plan
from muvr_train.demo.spec import CARD_FRAMES, CARD_SHARE, COLOURS, FRAMES, PARTITIONS, POSES, SHAPES, SIZES, SPLITS
from muvr_train.errors import ConfigError


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan("default")


@pytest.fixture(scope="module", params=["default", "large"])
def any_plan(request) -> Plan:
    return make_plan(request.param)


def words(plan: Plan, split: str) -> list[set[str]]:
    """The words of each instance topic's prompts."""
    chosen = [topic for topic in plan.topics if topic.partition == "instance" and topic.split == split]
    return [set(" ".join(topic.prompts).lower().replace(".", "").split()) for topic in chosen]


def test_counts(plan):
    assert Counter(topic.partition for topic in plan.topics) == dict.fromkeys(PARTITIONS, 20)
    for topic in plan.topics:
        others = sum(len(ids) for role, ids in topic.members.items() if role != "query")
        assert len(topic.members["query"]) == len(topic.prompts) == 3
        assert 8 <= others <= 12
        assert 2 <= len(topic.members["hard_independent"]) <= 4
    assert 1500 <= len(plan.videos) <= 1700


@pytest.mark.parametrize("size", SIZES)
def test_every_video_has_all_its_frames(size):
    for video in make_plan(size).videos:
        assert video.frames == FRAMES
        assert all(shot.frames > 0 for shot in video.shots)


def test_ids_are_unique(any_plan):
    assert len({(video.partition, video.id) for video in any_plan.videos}) == len(any_plan.videos)
    assert len({video.number for video in any_plan.videos}) == len(any_plan.videos)


def test_splits_are_those_of_the_reader(plan):
    expected = assign_splits([topic.name for topic in plan.topics], (0.5, 0.1, 0.4))
    assert {topic.name: topic.split for topic in plan.topics} == expected
    assert Counter(topic.split for topic in plan.topics) == {"train": 50, "val": 10, "test": 40}
    by_topic = {(topic.partition, topic.index): topic.split for topic in plan.topics}
    for video in plan.videos:
        assert video.topic is None or by_topic[video.partition, video.topic] == video.split


def test_galleries_of_the_test_queries(any_plan):
    for partition in PARTITIONS:
        gallery = set(any_plan.independent[f"{partition}/test"])
        for topic in any_plan.topics:
            if topic.partition == partition and topic.split == "test":
                gallery.update(*topic.members.values())
        assert len(gallery) >= 150


def test_no_video_serves_two_splits(any_plan):
    split_of = {video.number: video.split for video in any_plan.videos}
    for topic in any_plan.topics:
        assert {split_of[number] for ids in topic.members.values() for number in ids} == {topic.split}
    for name, ids in any_plan.independent.items():
        assert {split_of[number] for number in ids} == {name.split("/")[1]}


def test_every_instance_word_occurs_in_several_training_topics(any_plan):
    size = SIZES[any_plan.size]
    trained = Counter(word for topic in words(any_plan, "train") for word in topic)
    asked = set().union(*words(any_plan, "test"), *words(any_plan, "val"))
    named = {*SHAPES[: size.vocabulary[0]], *COLOURS[: size.vocabulary[1]]}
    assert named <= trained.keys() | asked
    assert {word: trained[word] for word in asked | named if trained[word] < 2} == {}


def test_no_two_instance_topics_have_one_object(any_plan):
    topics = [topic for topic in any_plan.topics if topic.partition == "instance"]
    objects = {frozenset({*SHAPES, *COLOURS} & set(topic.prompts[0].strip(".").split())) for topic in topics}
    assert len(objects) == len(topics)
    assert all(len(pair) == 2 for pair in objects)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_vocabularies_are_walked_by_coprime_cycles(size):
    shapes, colours = size.vocabulary
    assert gcd(shapes, colours) == 1
    assert shapes * colours >= size.topics


def test_objects_are_where_they_should_be(any_plan):
    """Matches hold the topic's object, hard negatives share one word with it, no other video of the split has it."""
    objects = {}
    for video in any_plan.videos:
        if video.partition == "instance":
            shown = {(a.kind, a.colour) for shot in video.shots for a in shot.actors if a.kind.startswith("object:")}
            assert len(shown) <= 1
            objects[video.number] = next(iter(shown), None)
    for topic in (topic for topic in any_plan.topics if topic.partition == "instance"):
        shape, colour = own = objects[topic.members["query"][0]]
        matches = {*topic.members["query"], *topic.members["instance"]}
        assert {number for number, shown in objects.items() if shown == own} == matches
        for number in topic.members["hard_independent"]:
            assert (objects[number][0] == shape) != (objects[number][1] == colour)


def test_dances_differ_only_in_the_order_of_poses(any_plan):
    orders = {}
    for video in any_plan.videos:
        if video.partition == "dance":
            orders[video.number] = next(actor.poses for actor in video.shots[-1].actors)
            assert sorted(orders[video.number]) == sorted(POSES)
            assert orders[video.number][0] == POSES[0]  # so that equal cycles are equal tuples
    for topic in (topic for topic in any_plan.topics if topic.partition == "dance"):
        matches = {*topic.members["query"], *topic.members["action"]}
        own = orders[topic.members["query"][0]]
        assert {number for number, order in orders.items() if order == own} == matches


def test_matches_of_a_place_share_it_and_hard_negatives_only_look_alike(plan):
    by_number = {video.number: video for video in plan.videos}
    for topic in (topic for topic in plan.topics if topic.partition in ("news", "region")):
        places = {role: [_places(by_number[n]) for n in ids] for role, ids in topic.members.items()}
        matches = [found for role, found in places.items() if role != "hard_independent" for found in found]
        common = set.intersection(*matches)
        assert len(common) == 1
        (place,) = common
        for found in places["hard_independent"]:
            assert place not in found
            assert any(replace(other, layout=place.layout) == place for other in found)


def _places(video):
    return {shot.scene for shot in video.shots if shot.scene is not None}


def test_cards(plan):
    cards = {split: {v.card for v in plan.videos if v.split == split} - {None} for split in SPLITS}
    assert cards["train"]
    assert cards["test"]
    assert not cards["train"] & cards["test"]
    assert not cards["val"] & (cards["train"] | cards["test"])
    share = sum(video.card is not None for video in plan.videos) / len(plan.videos)
    assert share == pytest.approx(CARD_SHARE, abs=0.05)
    for video in plan.videos:
        assert all(shot.card is None for shot in video.shots[1:])
        assert video.card is None or abs(video.shots[0].frames - CARD_FRAMES) <= 1


def test_a_plan_depends_on_size_and_seed_alone():
    plan, other = make_plan("tiny"), make_plan("tiny", seed=1)
    assert make_plan("tiny") == plan
    assert corpus_name(other) != corpus_name(plan)
    assert {topic.name: topic.split for topic in other.topics} == {topic.name: topic.split for topic in plan.topics}
    assert sum(a.shots == b.shots for a, b in zip(plan.videos, other.videos, strict=False)) == 0


@pytest.mark.parametrize("name", ["tiny-v1-63943f393d", "default-v1-7bb22ca29c", "large-v1-85a1841311"])
def test_the_plan_is_the_same_on_every_machine(name):
    """A change of this name means that caches are made anew: intended changes update it, others are mistakes."""
    assert corpus_name(make_plan(name.split("-")[0])) == name


def test_unknown_size():
    with pytest.raises(ConfigError, match=r"data\.size='huge'.*tiny, default, large"):
        make_plan("huge")
