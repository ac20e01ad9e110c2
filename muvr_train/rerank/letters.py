"""Where a letter of the alphabet stands in an answer as the choice of an option."""

from __future__ import annotations

from muvr_train.rerank.answer_words import ALTERNATIVES, REASONS, RIGHT, Mark, Words, word_set
from muvr_train.rerank.letter_context import (
    CONCLUDING,
    has_alternative,
    in_name,
    is_letter,
    is_no_word,
    is_said_of_answer,
    is_subject,
    is_weighed,
    refuses,
    refuted,
    sentence_before,
)

CHOOSING = word_set("choose chose choosing select selecting pick picking")
"""Verbs that a letter follows directly."""
CHOOSING_ENDS = ("选", "选择")
GOING = word_set("go going went stick")
CORRECTING = word_set("no nope wait actually sorry rather mean correction")
VERDICTS = word_set("yes no right wrong correct incorrect true false")
REPLACING = word_set("rather instead")
FITTING = word_set("fits matches works")
CHOSEN = word_set("选项 正确 选项正确 是对的 是正确的 选项是正确的 是正确答案 是正确选项 选项是正确答案")
JUDGED = word_set("is seems looks appears was")
BETWEEN = word_set("the most only best likely my a clearly definitely option final")
LISTED = (")", ".", ":", "\n")
"""What stands behind the letter of a list, also behind a small one."""
SENTENCE_GAPS = (". ", "! ", "? ")
"""What stands before an `A` that may be the cut-off start of a sentence."""
NAMING = word_set("option choice")
"""What may name an option by a small letter."""
AMBIGUOUS = "?"
"""Stands for two letters in one place: never offered, so that nothing agrees with it."""


def said_letter(words: Words) -> str | None:
    """Decide which letter, in upper case, an answer says; None where it says none, or several."""
    marks = [(mark, _value(words, mark.place, mark.sign)) for mark in words.marked()]
    opened: dict[int, str | None] = {}
    said: set[str | None] = set()
    corrected: dict[int, str | None] = {}
    letters = [place for place, word in enumerate(words.words) if is_letter(word) and not in_name(words, place)]
    judged = [place for place in letters if _is_judged(words, place)]
    for place in letters:
        if (_chosen(words, place) and not words.negated[place]) or _not_but(words, place):
            marks.append((Mark(place, False, False), _value(words, place, sign=False)))
        if words.opening[place] and (len(judged) < 2 or not _is_judged(words, place)):
            opened[place] = _start(words, place)
        if words.words[place].isupper() and not words.negated[place] and not words.doubted[place]:
            said |= {_judged(words, place), _last(words, place)}
            if _corrects(words, place):
                corrected[place] = words.words[place]
    final = any(mark.final and value for mark, value in marks)
    kept = {mark.place: value for mark, value in marks if value and (mark.final or not final)}
    last = max(kept, default=-1)
    later = {value for place, value in corrected.items() if place > last}
    if kept:
        places = {mark.place for mark, _ in marks}
        elsewhere = {value for place, value in opened.items() if place not in places} - {None}
        values = {*kept.values(), *later} | (elsewhere if len(elsewhere) == 1 else set())
    else:
        values = {*opened.values(), *said, *later} - {None} or {_small(words)}
    return next(iter(values)) if len(values) == 1 else None


def _corrects(words: Words, place: int) -> bool:
    """Whether it takes the place of what was said before: `C, no, D`."""
    if not place or words.ends_sentence(place) or words.folded[place - 1] not in CORRECTING:
        return False
    cut = words.words[place] in "AI" and words.delimited(place) == "end"
    comma = words.folded[place - 1] != "no" or words.ends_clause(place)
    return comma and not cut and is_no_word(words, place) and not refuted(words, place)


def _is_judged(words: Words, place: int) -> bool:
    """Whether a letter of a list is judged: `A: no. B: yes`."""
    listed = not words.is_last(place) and words.delimited(place) in (":", "-", "–", "—")
    return listed and words.opening[place] and words.folded[place + 1] in VERDICTS


def _not_but(words: Words, place: int) -> bool:
    """Whether it is put in place of another letter: `the answer is not B but C`."""
    before = [at for at in range(max(place - 6, 0), place) if words.folded[at] not in ("option", "rather")]
    if len(before) < 3 or words.folded[before[-1]] != "but" or not is_letter(words.words[before[-2]]):
        return False
    negation = before[-3]
    if words.folded[negation] == "isn't":
        return is_subject(words, negation - 1)
    return words.folded[negation] == "not" and (words.opening[negation] or is_said_of_answer(words, negation))


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
    if not is_letter(word) or in_name(words, place) or words.doubted[place] or refuted(words, place):
        return None
    if has_alternative(words, place) or is_weighed(words, place):
        return AMBIGUOUS
    if words.bracketed(place):
        return word.upper()
    delimiter = words.delimited(place)
    if word.islower():
        whole = delimiter == "end" and (sign or word not in "ai")
        return word.upper() if whole or delimiter in LISTED else None
    if word in "AI":
        return word if is_no_word(words, place, valued=True) else None
    return word


def _start(words: Words, place: int) -> str | None:
    """Read a letter in front of which there is nothing but fillers."""
    word, delimiter = words.words[place], words.delimited(place)
    if words.doubted[place] or refuted(words, place) or refuses(words, place):
        return None
    if place and word in "AI" and not delimiter and words.folded[place + 1] not in ALTERNATIVES | REASONS:
        return None  # the article of `I, A dog`
    if has_alternative(words, place) or is_weighed(words, place):
        return AMBIGUOUS
    if words.bracketed(place):
        return word.upper()
    if word.islower():
        known = delimiter in (*LISTED, "end") or (delimiter == "," and word not in "ai")
        return word.upper() if place == 0 and known else None
    if is_no_word(words, place):
        cut = word in "AI" and place > 0 and words.gaps[place] in SENTENCE_GAPS and not words.gaps[place + 1].strip()
        return None if cut and delimiter == "end" else word
    copied = word not in "AI" and not delimiter and place == 0 and words.words[1][0].isupper()
    return word if copied and len(words.words[1]) > 1 else None


def _small(words: Words) -> str | None:
    """Read a small letter behind the only `option` of an answer without another letter, as in `I choose option b`."""
    names = [place for place, word in enumerate(words.folded) if word in NAMING]
    place = names[-1] + 1 if names else len(words.words)
    if place >= len(words.words) or not is_letter(words.words[place]) or words.words[place].isupper():
        return None
    word, delimiter = words.words[place], words.delimited(place)
    others = {letter for letter in words.folded if is_letter(letter)} - {word, "a", "i"}
    sure = words.opening[place] and not (others or words.doubted[place] or refuted(words, place))
    sure = sure and not in_name(words, place) and not words.ends_clause(place)
    ends = delimiter in ("end", ".", ")", "\n") or words.bracketed(place)
    if word in "ai":
        ends = place == 1 and words.is_last(place)
    return word.upper() if sure and ends and set(names) <= {place - 1, place - 2, place - 3} else None


def _judged(words: Words, place: int) -> str | None:
    """Read `B is the correct answer`, `B it is` and `B fits best`."""
    rest = words.folded[place + 1 : place + 6]
    whole = rest[:2] == ["it", "is"] or (rest[:1] and rest[0] in FITTING and rest[1:2] == ["best"])
    if whole and not words.delimited(place) and _ends_sentence(words, place + 2):
        return words.words[place]
    if rest and rest[0] in CHOSEN and words.opening[place] and _ends_sentence(words, place + 1):
        return words.words[place]
    if not rest or rest[0] not in JUDGED or words.delimited(place):
        return None
    ahead = next((word for word in rest[1:] if word not in BETWEEN or word in RIGHT), "")
    return words.words[place] if ahead in RIGHT and not refuted(words, place) else None


def _last(words: Words, place: int) -> str | None:
    """Read a letter that ends a sentence: `so the correct option is E`, `A is wrong, so E`."""
    ends = _ends_sentence(words, place)
    if not place or not (ends or words.folded[place + 1] in REPLACING) or has_alternative(words, place):
        return None
    concluded = ends and words.lone[place] and words.folded[place - 1] in CONCLUDING
    concluded = concluded and any(map(is_letter, sentence_before(words, place)))
    return words.words[place] if concluded or is_said_of_answer(words, place) else None


def _ends_sentence(words: Words, place: int) -> bool:
    return words.is_last(place) or words.ends_sentence(place + 1)
