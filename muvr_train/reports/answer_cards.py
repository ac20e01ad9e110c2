"""What a page of answers shows: cards of one question, of a pair, or of all of one query, and what finds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muvr_train.rerank.asked_digest import options_of
from muvr_train.rerank.scoring import right_choices
from muvr_train.rerank.types import Answer, Question

CORRECT, WRONG, INVALID, FAILED, UNASKED = "correct", "wrong", "invalid", "failed", "not asked"
OUTCOMES = (CORRECT, WRONG, INVALID, FAILED, UNASKED)
INSTRUCTIVE = (FAILED, INVALID, WRONG, CORRECT, UNASKED)
"""What gets pictures and room first."""
TOGETHER = {"muvr_qa": ("partition", "pair"), "rerank": ("query", "expression")}
"""Benchmark -> the facts that questions of one card share; of any other benchmark each has a card of its own."""
FACETS = ("partition", "task", "group", "granularity", "category")
"""Facts that cards can be filtered by, where there are any."""


@dataclass(frozen=True)
class Entry:
    """A question, what was answered, how that was read, and what it is worth: one of `OUTCOMES`."""

    question: Question
    answer: Answer | None
    verdict: str | None

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        if self.answer is None:
            return UNASKED
        if not self.answer.answered:
            return FAILED
        if self.verdict is None:
            return INVALID
        return CORRECT if self.verdict in self.right else WRONG

    @property
    def right(self) -> tuple[str, ...]:
        """The right choice, and others with the same text."""
        return right_choices(self.question)

    @property
    def options(self) -> dict[str, str]:
        """Choice -> the text that stands for it, "" where the choice is all."""
        known = options_of(self.question) or {}
        return {choice: str(known.get(choice, "")) for choice in self.question.choices}


@dataclass(frozen=True)
class Card:
    """One or more questions that are looked at together.

    Attributes:
        entries: a pair stands as (the match, the other).
        pair: the two answers of a pair and what they add to the Reranking Score, None for all but pairs.
    """

    entries: tuple[Entry, ...]
    pair: str | None = None
    facets: Mapping[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facets", _facets(self))

    @property
    def outcome(self) -> str:
        """The most instructive one of its entries."""
        return min((entry.outcome for entry in self.entries), key=INSTRUCTIVE.index)

    @property
    def setting(self) -> str:
        """That of all its entries."""
        return self.entries[0].question.setting


def make_cards(
    questions: Iterable[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
) -> list[Card]:
    """Put questions on cards, in order: the two of a pair on one, all reranked videos of a query on one."""
    groups: dict[tuple[object, ...], list[Entry]] = {}
    for question in questions:
        key = (question.id, question.setting)
        entry = Entry(question, answers.get(key), verdicts.get(key))
        groups.setdefault(_group(question), []).append(entry)
    return [_card(entries) for entries in groups.values()]


def choose_cards(cards: Sequence[Card], most: int) -> list[Card]:
    """Cards with at most `most` questions, the instructive ones first, each setting alike; in their old order."""
    seen: Counter[tuple[str, str]] = Counter()
    order: list[tuple[int, int, int]] = []
    for place, card in enumerate(cards):
        own = (card.outcome, card.setting)
        order.append((INSTRUCTIVE.index(card.outcome), seen[own], place))
        seen[own] += 1
    kept = []
    for *_, place in sorted(order):
        most -= len(cards[place].entries)
        if most < 0:
            break
        kept.append(place)
    return [cards[place] for place in sorted(kept)]


def facet_values(cards: Iterable[Card]) -> dict[str, dict[str, int]]:
    """Facet -> value -> how many cards have it; facets of which all cards have the same are left out."""
    found: dict[str, Counter[str]] = {}
    for card in cards:
        for name, values in card.facets.items():
            found.setdefault(name, Counter()).update(sorted(values))
    return {
        name: {value: counts[value] for value in (*(v for v in OUTCOMES if v in counts and name == "outcome"), *counts)}
        for name, counts in found.items()
        if len(counts) > 1 or name == "outcome"
    }


def _group(question: Question) -> tuple[object, ...]:
    names = TOGETHER.get(str(question.about.get("benchmark")))
    own = (question.id,) if names is None else tuple(question.about[name] for name in names)
    return (question.setting, *own)


def _card(entries: Sequence[Entry]) -> Card:
    """A card; of two questions of MUVR-QA, one with a match, a pair."""
    match, *others = sorted(entries, key=lambda entry: entry.question.truth != "yes")
    is_pair = match.question.about.get("benchmark") == "muvr_qa" and match.question.truth == "yes" and len(others) == 1
    return Card((match, *others), _pair_outcome(match, others[0])) if is_pair else Card(tuple(entries))


def _pair_outcome(match: Entry, other: Entry) -> str:
    """Both answers, and +1 (both right), 0, -1 (the match denied) or -2; whatever is not right is wrong."""
    score = 2 * (match.outcome == CORRECT) + (other.outcome == CORRECT) - 2
    said = [entry.verdict if entry.outcome in (CORRECT, WRONG) else entry.outcome for entry in (match, other)]
    return f"{said[0]}, {said[1]} ({score:+d})" if score else f"{said[0]}, {said[1]} (0)"


def _facets(card: Card) -> dict[str, frozenset[str]]:
    facets = {"outcome": frozenset(entry.outcome for entry in card.entries)}
    if card.pair is not None:
        facets["pair: match, other"] = frozenset([card.pair])
    for name in FACETS:
        values = {str(entry.question.about[name]) for entry in card.entries if entry.question.about.get(name)}
        if values:
            facets[name] = frozenset(values)
    facets["setting"] = frozenset([card.setting])
    about = card.entries[0].question.about
    if "tag" in about or "expression" in about:
        facets["tag"] = frozenset(["tagged" if about.get("tag") or about.get("expression") else "untagged"])
    return facets
