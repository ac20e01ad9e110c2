"""Tag expressions of the queries: which matches show what, in the form of MUVR's query_tag_lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from muvr_train.demo.facts import Facts, facts_of
from muvr_train.demo.plan_base import HARD
from muvr_train.demo.plan_parts import make_rng
from muvr_train.demo.scenario import Plan, Topic
from muvr_train.demo.spec import find_size

MOST_TAGS = (4, 7)
LEAST_TAGS = 3
COMBINED = 2
Lists = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class TopicTags:
    """The tags of a topic, and by number of the query its tag expressions with the matches under each."""

    tags: tuple[str, ...]
    lists: Mapping[int, Lists]


def plan_tags(plan: Plan) -> dict[str, TopicTags]:
    """Choose the tags of every topic, by its name; depends on the plan alone, and changes nothing in it.

    A tag splits the topic's matches: some show it, some do not, and of none it is doubtful. Every word of a held-out
    topic's tags stands in the tags or texts of at least `DemoSize.support` training topics.
    """
    support, least = Counter[str](), find_size(plan.size).support
    by_number = {video.number: video for video in plan.videos}
    tagged: dict[str, TopicTags] = {}
    for topic in sorted(plan.topics, key=lambda topic: topic.split != "train"):
        facts = {number: facts_of(by_number[number]) for number in matches_of(topic)}
        found = _splitting(facts)
        if topic.split != "train":
            found = [tag for tag in found if all(support[word] >= least for word in words_of([tag]))]
        rng = make_rng(plan.seed, topic.name, "tags")
        tags = tuple(rng.sample(found, min(len(found), rng.randint(*MOST_TAGS))))
        tagged[topic.name] = TopicTags(
            tags, {query: _lists(rng, tags, facts, query) for query in topic.members["query"]}
        )
        if topic.split == "train":
            support.update(words_of([*topic.prompts, *tags]))
    return tagged


def matches_of(topic: Topic) -> tuple[int, ...]:
    """The numbers of a topic's queries and their matches, sorted."""
    return tuple(sorted(number for role, ids in topic.members.items() if role != HARD for number in ids))


def words_of(texts: Iterable[str]) -> set[str]:
    """The different words of texts, as the hash text encoder tells them."""
    return {word for text in texts for word in re.findall(r"\w+", text.casefold())}


def _splitting(facts: Mapping[int, Facts]) -> list[str]:
    """Tags that some videos have and others lack, at least two each where there are enough such tags, sorted."""
    names = sorted({tag for known in facts.values() for tag in known})
    shown = {tag: [known.get(tag, False) for known in facts.values()] for tag in names}
    for least in (2, 1):
        found = [t for t in names if None not in shown[t] and least <= sum(map(bool, shown[t])) <= len(facts) - least]
        if len(found) >= LEAST_TAGS:
            break
    return found


def _lists(rng: Random, tags: Sequence[str], facts: Mapping[int, Facts], query: int) -> Lists:
    """A query's expressions: each tag with a sign, and some pairs; none finds all of the other matches, or nothing."""
    others = [number for number in facts if number != query]
    signed = [(rng.choice("+-"), tag) for tag in tags]
    found = {f"{sign}{tag}": {n for n in others if facts[n].get(tag, False) == (sign == "+")} for sign, tag in signed}
    usable = {text: ids for text, ids in found.items() if 0 < len(ids) < len(others)}
    lists = dict(usable)
    pairs = list(combinations(usable, 2))
    rng.shuffle(pairs)
    lists |= dict(_pairs(pairs, usable, len(others)))
    return {text: tuple(number for number in others if number in ids) for text, ids in lists.items()}


def _pairs(
    pairs: Sequence[tuple[str, str]], single: Mapping[str, Collection[int]], most: int
) -> Iterator[tuple[str, set[int]]]:
    """Up to `COMBINED` AND and as many OR of two conditions, each of which changes what is found."""
    left = dict.fromkeys(("AND", "OR"), COMBINED)
    for number, (a, b) in enumerate(pairs):
        word = ("AND", "OR")[number % 2]
        first, second = set(single[a]), set(single[b])
        both = first & second if word == "AND" else first | second
        if left[word] and 0 < len(both) < most and both not in (first, second):
            left[word] -= 1
            yield f"{word} {a} {b}", both
