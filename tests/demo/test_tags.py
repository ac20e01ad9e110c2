"""Tags of the built-in corpus: what is listed is true, each tag splits, and held-out words were trained on."""

from collections import Counter
from functools import lru_cache

import pytest

from muvr_train.benchmarks.expressions import Or, conditions_of, operator_of, parse
from muvr_train.demo.facts import facts_of
from muvr_train.demo.plan import make_plan
from muvr_train.demo.plan_base import HARD
from muvr_train.demo.spec import SIZES
from muvr_train.demo.tags import TopicTags, plan_tags, words_of

SIZE = pytest.mark.parametrize("size", SIZES)
FULL = pytest.mark.parametrize("size", ["default", "large"])


@lru_cache
def planned(size) -> dict[str, TopicTags]:
    return plan_tags(make_plan(size))


def matches(topic):
    return sorted(number for role, ids in topic.members.items() if role != HARD for number in ids)


@SIZE
def test_every_topic_has_some_tags(size):
    plan, tagged = make_plan(size), planned(size)
    assert set(tagged) == {topic.name for topic in plan.topics}
    for topic in plan.topics:
        tags = tagged[topic.name]
        assert 3 <= len(tags.tags) == len(set(tags.tags)) <= 10
        assert set(tags.lists) == set(topic.members["query"])
        named = {c.tag for lists in tags.lists.values() for text in lists for c in conditions_of(parse(text))}
        assert named == set(tags.tags)


@SIZE
def test_lists_are_what_the_expressions_say(size):
    """By every video's facts, evaluated here as logic says; nothing is listed that is neither true nor false."""
    plan, tagged = make_plan(size), planned(size)
    facts = {video.number: facts_of(video) for video in plan.videos if video.role not in (HARD, "independent")}
    kinds: Counter[str] = Counter()
    for topic in plan.topics:
        for query, lists in tagged[topic.name].lists.items():
            others = [number for number in matches(topic) if number != query]
            for text, listed in lists.items():
                expression = parse(text)
                assert str(expression) == text
                kinds[operator_of(expression)] += 1
                rows = [[facts[n].get(c.tag, False) for n in others] for c in conditions_of(expression)]
                assert not any(value is None for row in rows for value in row)
                held = [
                    [value == (c.sign > 0) for value in row]
                    for c, row in zip(conditions_of(expression), rows, strict=True)
                ]
                join = any if isinstance(expression, Or) else all
                expected = [n for n, values in zip(others, zip(*held, strict=True), strict=True) if join(values)]
                assert list(listed) == expected
                assert 0 < len(listed) < len(others)
    assert kinds.keys() == {"single", "AND", "OR"}
    assert min(kinds.values()) >= len(plan.topics)


@SIZE
def test_conditions_of_both_signs(size):
    signs = Counter(
        condition.sign
        for tags in planned(size).values()
        for lists in tags.lists.values()
        for text in lists
        for condition in conditions_of(parse(text))
    )
    assert 0.4 < signs[1] / signs.total() < 0.6


@FULL
def test_a_pair_changes_what_its_conditions_find(size):
    for tags in planned(size).values():
        for lists in tags.lists.values():
            for text, listed in lists.items():
                singles = [lists[str(c)] for c in conditions_of(parse(text))]
                assert len(singles) == 1 or all(set(listed) != set(single) for single in singles)


@FULL
def test_words_of_held_out_tags_are_trained_on(size):
    """And in `large` those of held-out texts as well."""
    plan, tagged = make_plan(size), planned(size)
    trained: Counter[str] = Counter()
    for topic in plan.topics:
        if topic.split == "train":
            trained.update(words_of([*topic.prompts, *tagged[topic.name].tags]))
    asked = {"tags": set(), "texts": set()}
    for topic in plan.topics:
        if topic.split != "train":
            asked["tags"] |= words_of(tagged[topic.name].tags)
            asked["texts"] |= words_of(topic.prompts)
    rare = {kind: {word for word in words if trained[word] < 3} for kind, words in asked.items()}
    assert rare["tags"] == set()
    assert rare["texts"] == ({"cross", "green", "grey", "purple", "star", "yellow"} if size == "default" else set())


def test_tags_follow_from_the_plan():
    plan = make_plan("tiny")
    assert plan_tags(plan) == planned("tiny")
    assert plan_tags(make_plan("tiny", seed=1)) != planned("tiny")
    assert plan == make_plan("tiny")


def test_all_kinds_of_facts_become_tags():
    used = {tag for tags in planned("large").values() for tag in tags.tags}
    assert {"title card", "night", "beach", "caption", "logo", "car", "red clothes", "tilted", "close view"} <= used
