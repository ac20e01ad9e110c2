"""Tag expressions of MUVR-Filter: `+night`, `-subtitle`, `AND +crowd -night`, `OR +night +indoor`, `+crowd -night`.

An expression is one condition, or several under AND or OR. Several without a word are what the official program calls
one prompt; all of them are meant, so they are an AND. The text is cut as the official program cuts it: at each space
that a + or - follows, so that the hyphen of "black-and-white" cuts nothing. Where a tag itself holds such a place
("-high -rise buildings"), the query's known tags say what was meant (`resolve`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from muvr_train.errors import DataError

WORDS = ("AND", "OR")
OPERATORS = ("single", "compound", *WORDS)
SIGNS = ("+", "-", "mixed")
UPPER_BOUND = "upper_bound_by_labels"
"""The mode that is no method: the best combination of scores by the labels themselves."""
_CUT = re.compile(r"\s+(?=[+-])")


@dataclass(frozen=True)
class Condition:
    """A tag that a video must have (`sign` 1) or must not have (-1)."""

    sign: int
    tag: str

    def __post_init__(self) -> None:
        if self.sign not in (1, -1) or not self.tag or self.tag != self.tag.strip():
            raise ValueError(f"a condition is a sign 1 or -1 and a tag without outer spaces, got {self!r}")

    def __str__(self) -> str:
        return f"{'+' if self.sign > 0 else '-'}{self.tag}"


@dataclass(frozen=True)
class And:
    """Every condition holds. `word` is False where the annotation wrote the conditions without AND."""

    conditions: tuple[Condition, ...]
    word: bool = True

    def __post_init__(self) -> None:
        if len(self.conditions) < (1 if self.word else 2):
            raise ValueError("AND needs a condition, and two where the word is not written")

    def __str__(self) -> str:
        return ("AND " if self.word else "") + " ".join(map(str, self.conditions))


@dataclass(frozen=True)
class Or:
    """At least one condition holds."""

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        if not self.conditions:
            raise ValueError("OR needs a condition")

    def __str__(self) -> str:
        return "OR " + " ".join(map(str, self.conditions))


Expression = Condition | And | Or


def conditions_of(expression: Expression) -> tuple[Condition, ...]:
    """The conditions of an expression, as written."""
    return (expression,) if isinstance(expression, Condition) else expression.conditions


def operator_of(expression: Expression) -> str:
    """One of `OPERATORS`: `single`, `compound` (several without a word), `AND`, `OR`."""
    if isinstance(expression, Condition):
        return "single"
    if isinstance(expression, Or):
        return "OR"
    return "AND" if expression.word else "compound"


def sign_of(expression: Expression) -> str:
    """`+` or `-` where all conditions have that sign, else `mixed`."""
    signs = {condition.sign for condition in conditions_of(expression)}
    return "mixed" if len(signs) > 1 else ("+" if 1 in signs else "-")


def is_official(text: str) -> bool:
    """Whether the official program evaluates the expression: it passes over those that begin with AND or OR."""
    return not text.startswith(WORDS)


def parse(text: str) -> Expression:
    """Read an expression by the official cuts alone.

    Raises:
        DataError: it is empty, a condition has no sign or no tag, or a word has no condition.

    >>> print(parse("AND +slow motion -black-and-white"))
    AND +slow motion -black-and-white
    """
    return resolve(text, ()).expression


@dataclass(frozen=True)
class Reading:
    """An expression and what was doubtful about it.

    Attributes:
        expression: As it is understood.
        merged: Tags that the official cuts would break, and the query's known tags put together.
        contested: Known tags that could also have been meant where the official cuts give known tags as well.
        unknown: Tags that are not among the query's known tags.
    """

    expression: Expression
    merged: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def resolve(text: str, known: Collection[str]) -> Reading:
    """Read an expression with the help of the query's known tags.

    Among the ways to join pieces of the official cuts into tags, the one with the fewest unknown tags is taken, and of
    these the one with the most conditions; so the official reading stands wherever its tags are known. Joined pieces
    count as a known tag whatever their case and their spaces around hyphens; they take its spelling.

    Args:
        text: The expression as annotated.
        known: The query's tags; where there are none, the official cuts stand and nothing is unknown.

    Raises:
        DataError: see `parse`.
    """
    word, pieces = _pieces(text)
    spelling = {_plain(tag): tag.strip() for tag in known}
    runs = _runs(pieces, spelling)
    conditions = tuple(Condition(1 if run.text[0] == "+" else -1, run.tag) for run in runs)
    joined = [spelling[_plain(other)] for other in _joined(pieces) if _plain(other) in spelling]
    merged = tuple(run.tag for run in runs if run.size > 1)
    unknown = tuple(run.tag for run in runs if known and _plain(run.tag) not in spelling)
    expression: Expression
    if word == "OR":
        expression = Or(conditions)
    elif word == "AND" or len(conditions) > 1:
        expression = And(conditions, word=word == "AND")
    else:
        expression = conditions[0]
    return Reading(expression, merged, tuple(dict.fromkeys(tag for tag in joined if tag not in merged)), unknown)


def _pieces(text: str) -> tuple[str | None, list[str]]:
    """The word, if any, and the conditions' texts between the official cuts."""
    body = text.strip()
    if not body:
        raise DataError("an empty tag expression; write +tag or -tag, or several after AND or OR")
    first, _, rest = body.partition(" ")
    word = first if first in WORDS else None
    if word is not None:
        body = rest.strip()
    pieces = [piece.strip() for piece in _CUT.split(body)] if body else []
    if not pieces:
        raise DataError(f"tag expression {text!r}: {word} has no condition")
    for piece in pieces:
        if piece[0] not in "+-" or not piece[1:].strip():
            raise DataError(
                f"tag expression {text!r}: {piece!r} is no condition; each is + or - and a tag, "
                "and only the words AND and OR may stand before them"
            )
    return word, pieces


@dataclass(frozen=True)
class _Run:
    """Pieces that make one condition."""

    text: str
    tag: str = field(compare=False)
    size: int = field(compare=False)


def _runs(pieces: Sequence[str], spelling: dict[str, str]) -> list[_Run]:
    """The best way to join the pieces; from the last piece to the first, as (unknown tags, -conditions, runs)."""
    best: list[tuple[int, int, list[_Run]]] = [(0, 0, [])]
    for start in range(len(pieces) - 1, -1, -1):
        choices = []
        for size in range(1, len(pieces) - start + 1):
            text = " ".join(pieces[start : start + size])
            found = spelling.get(_plain(text[1:]))
            if size == 1 or found is not None:
                tag = text[1:].strip() if size == 1 or found is None else found
                unknown, negative, rest = best[size - 1]
                choices.append((unknown + (found is None), negative - 1, [_Run(text, tag, size), *rest]))
        best.insert(0, min(choices, key=lambda choice: choice[:2]))
    return best[0][2]


def _joined(pieces: Sequence[str]) -> list[str]:
    """Every tag that two or more neighbouring pieces could be."""
    ends = range(len(pieces) + 1)
    return [" ".join(pieces[a:b])[1:] for a in ends for b in ends[a + 2 :]]


@lru_cache(maxsize=100_000)
def _plain(tag: str) -> str:
    """A tag without what spellings differ in: case, runs of spaces, spaces around hyphens and plus signs."""
    return re.sub(r"\s*([+-])\s*", r"\1", " ".join(tag.split())).casefold()
