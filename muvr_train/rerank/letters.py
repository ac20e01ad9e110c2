"""Where a letter of the alphabet stands in an answer as the choice of an option."""

from __future__ import annotations

from muvr_train.rerank.answer_words import ALTERNATIVES, REASONS, Words, word_set

CHOOSING = word_set("choose chose choosing select selecting pick picking")
"""Verbs that a letter follows directly."""
CHOOSING_ENDS = ("选", "选择")
GOING = word_set("go going went stick")
TRIGGERS = word_set("is it's that's be option choice answer")
JUDGED = word_set("is seems looks appears was")
RIGHT = word_set("correct right best accurate answer true closest choice")
WRONG = word_set("not wrong incorrect false isn't cannot can't doesn't neither")
BETWEEN = word_set("the most only best likely my a clearly definitely option")
LISTED = (")", ".", ":", "\n")
"""What stands behind the letter of a list, also behind a small one."""
AMBIGUOUS = "?"
"""Stands for two letters in one place: never offered, so that nothing agrees with it."""


def letter_places(words: Words) -> tuple[set[str], set[str], set[str]]:
    """Collect letters, in upper case, by the kind of place.

    Returns:
        (behind a mark, at the start of a sentence or behind nothing but fillers, said otherwise to be the answer).
    """
    marked = {_value(words, place, sign) for place, sign in words.marked()}
    opened: set[str | None] = set()
    said: set[str | None] = set()
    for place, word in enumerate(words.words):
        if not _is_letter(word):
            continue
        if _chosen(words, place) and not words.negated[place]:
            marked.add(_value(words, place, sign=False))
        if words.opening[place]:
            opened.add(_start(words, place))
        if word.isupper() and not words.negated[place] and not words.doubted[place]:
            said |= {_judged(words, place), _last(words, place)}
    return marked - {None}, opened - {None}, said - {None}  # type: ignore[return-value]


def _is_letter(word: str) -> bool:
    return len(word) == 1 and word.isascii() and word.isalpha()


def _chosen(words: Words, place: int) -> bool:
    """Whether a verb of choosing stands right before: `I pick B`, `I go with B`."""
    if not place:
        return False
    verb = words.folded[place - 1]
    going = verb == "with" and words.folded[max(place - 2, 0)] in GOING
    return going or verb in CHOOSING or (verb.endswith(CHOOSING_ENDS) and "不" not in verb)


def _value(words: Words, place: int, sign: bool) -> str | None:
    """Read a letter behind a mark; behind a verb (`is a`) a lone lower-case letter may be a cut-off article."""
    word = words.words[place]
    if not _is_letter(word) or words.doubted[place] or _refuted(words, place):
        return None
    if _alternative(words, place):
        return AMBIGUOUS
    if words.bracketed(place):
        return word.upper()
    delimiter = words.delimited(place)
    if word.islower():
        whole = delimiter == "end" and (sign or word not in "ai")
        return word.upper() if whole or delimiter in LISTED else None
    if word in "AI":
        return word if _is_no_word(words, place) else None
    return word


def _start(words: Words, place: int) -> str | None:
    """Read a letter in front of which there is nothing but fillers."""
    word, delimiter = words.words[place], words.delimited(place)
    if words.doubted[place] or _refuted(words, place):
        return None
    if _alternative(words, place):
        return AMBIGUOUS
    if words.bracketed(place):
        return word.upper()
    if word.islower():
        known = delimiter in (*LISTED, "end") or (delimiter == "," and word not in "ai")
        return word.upper() if place == 0 and known else None
    if _is_no_word(words, place):
        return word
    copied = word not in "AI" and not delimiter and place == 0 and words.words[1][0].isupper()
    return word if copied and len(words.words[1]) > 1 else None


def _is_no_word(words: Words, place: int) -> bool:
    """Whether what follows makes a capital a letter, and neither an article nor a pronoun."""
    delimiter = words.delimited(place)
    if not delimiter:
        return words.folded[place + 1] in REASONS
    return words.words[place] != "I" or delimiter in ("end", ")", ".", ":", "*", "\n", "]", "}", '"')


def _judged(words: Words, place: int) -> str | None:
    """Read `B is the correct answer`."""
    rest = words.folded[place + 1 : place + 6]
    if not rest or rest[0] not in JUDGED or words.delimited(place):
        return None
    ahead = next((word for word in rest[1:] if word not in BETWEEN or word in RIGHT), "")
    return words.words[place] if ahead in RIGHT and not _refuted(words, place) else None


def _last(words: Words, place: int) -> str | None:
    """Read a letter that ends a sentence: `so the correct option is E`."""
    ends = words.is_last(place) or words.ends_sentence(place + 1)
    if not ends or not place or words.folded[place - 1] not in TRIGGERS:
        return None
    return words.words[place]


def _refuted(words: Words, place: int) -> bool:
    """Whether its clause goes on to say that the letter is wrong."""
    for other in range(place + 1, min(place + 4, len(words.words))):
        if words.ends_clause(other):
            return False
        if words.folded[other] in WRONG or words.folded[other].endswith("n't"):
            return True
    return False


def _alternative(words: Words, place: int) -> bool:
    """Whether another letter is joined to it: `A and C`, `A/B`, `B, C`."""
    return any(
        other is not None and other != words.words[place].upper()
        for other in (_neighbour(words, place, step) for step in (-1, 1))
    )


def _neighbour(words: Words, place: int, step: int) -> str | None:
    """Give the letter that a word before or behind joins, None if there is none."""
    other = place + step
    if not 0 <= other < len(words.words):
        return None
    gap = words.gaps[max(place, other)]
    joined = any(sign in gap for sign in ",/&+|、–—~") and not words.ends_sentence(max(place, other))
    if not joined and words.words[other] in ALTERNATIVES:
        other += step
        joined = 0 <= other < len(words.words)
    if not joined or not _is_letter(words.words[other]) or words.words[other].islower() != words.words[place].islower():
        return None
    article = words.words[other] in "AIai" and not words.delimited(other) and not words.bracketed(other)
    followed = "" if words.is_last(other) else words.folded[other + 1]
    return None if article and followed not in ALTERNATIVES else words.words[other].upper()
