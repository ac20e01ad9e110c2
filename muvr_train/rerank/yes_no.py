"""Where yes and no stand in an answer as what it says, in several languages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from muvr_train.errors import ConfigError
from muvr_train.rerank.answer_words import ALTERNATIVES, HEDGES, REASONS, RIGHT, WRONG, Words, word_set
from muvr_train.rerank.denials import JOINERS, affirms, denies, denies_condition

YesNo = Literal["yes", "no"]
YES_NO: Mapping[str, tuple[str, str]] = {
    "en": ("yes yeah yep", "no nope"),
    "zh": ("是 是的 对 对的", "否 不 不是 不是的 不对"),
    "es": ("sí si", "no"),
    "fr": ("oui", "non"),
    "de": ("ja", "nein"),
    "pt": ("sim", "não nao"),
    "it": ("sì si", "no"),
    "nl": ("ja", "nee"),
    "pl": ("tak", "nie"),
    "ru": ("да", "нет"),
    "uk": ("так", "ні"),
    "tr": ("evet", "hayır hayir"),
    "ar": ("نعم", "لا"),
    "hi": ("हाँ हां", "नहीं"),
    "ja": ("はい", "いいえ"),
    "ko": ("예 네", "아니요 아니오 아니"),
    "vi": ("có đúng", "không"),
    "id": ("ya", "tidak bukan"),
}
"""Language -> the words for yes, the words for no."""
LOOSE = word_set("yes yeah yep oui ja sim evet да نعم")
"""Words that answer whatever follows them; the others are also articles, verbs or particles (`no match`)."""
AFTER_NO = REASONS | word_set(
    "the this these those it it's they they're there there's he she i i'm we you both neither not while although but"
)
TRIGGERS = word_set("is say be with answer it's that's")
ABOUT_WHAT = word_set("for to from on in about regarding otherwise")
"""What follows a yes or no about a part of the question: `no for the condition`."""
QUOTING = word_set("says said reads shouts")
SAYING = word_set("i i'd i'll we we'd")
JUDGING = word_set("is was would can could must seems may might cannot")


def check_languages(languages: Sequence[str], key: str = "languages") -> None:
    """Refuse a language whose yes and no are not known.

    Args:
        languages: their short names.
        key: the setting, for messages.

    Raises:
        ConfigError: with the nearest known one.
    """
    if isinstance(languages, str) or not languages:
        raise ConfigError(f"{key} must be a list such as [en], got {languages!r}")
    for language in languages:
        if language not in YES_NO:
            near = difflib.get_close_matches(str(language), YES_NO, 1)
            meant = f"; did you mean {near[0]}?" if near else "."
            raise ConfigError(
                f"{key}=[{','.join(map(str, languages))}]: yes and no are not known in {language!r}{meant} Known: "
                f"{', '.join(YES_NO)}"
            )


@lru_cache
def forms_of(languages: tuple[str, ...]) -> Mapping[str, YesNo]:
    """Word -> what it says.

    Raises:
        ConfigError: an unknown language.
    """
    check_languages(languages)
    forms: dict[str, YesNo] = {}
    for language in languages:
        yes, no = YES_NO[language]
        forms.update(dict.fromkeys(yes.split(), "yes"))
        forms.update(dict.fromkeys(no.split(), "no"))
    return forms


def said_yes_or_no(words: Words, languages: tuple[str, ...]) -> YesNo | None:
    """Decide what an answer says; None where it says nothing, or also the opposite.

    Raises:
        ConfigError: an unknown language.
    """
    forms = forms_of(languages)
    found = [(mark, forms.get(words.folded[mark.place])) for mark in words.marked()]
    marks = {mark.place: (said, mark.final) for mark, said in found if said and _counts(words, mark.place, forms)}
    final = any(last for _, last in marks.values())
    marked = {place: said for place, (said, last) in marks.items() if last or not final}
    standing = {place: forms[word] for place, word in enumerate(words.folded) if _stands(words, place, forms)}
    said = set((marked or standing).values()) | ({standing[0]} if 0 in standing else set())
    if len(said) != 1:
        return None
    answer, mark = said.pop(), max(marked, default=-1)
    if _contradicted(words, forms, answer, mark):
        return None
    start = mark + 1 if marked else min(standing) + 1
    unmet = answer == "yes" and denies_condition(words, start, languages, one_sentence=bool(marked))
    retracted = answer == "no" and not marked and affirms(words)
    return None if unmet or retracted else answer


def _counts(words: Words, place: int, forms: Mapping[str, YesNo]) -> bool:
    """Whether a word behind a mark is the whole value."""
    plain = not words.doubted[place] and not _alternative(words, place, forms)
    return plain and _complete(words, place) and not _restricted(words, place)


def _stands(words: Words, place: int, forms: Mapping[str, YesNo]) -> bool:
    """Whether a word stands where it is an answer."""
    if words.folded[place] not in forms or words.doubted[place] or _alternative(words, place, forms):
        return False
    if words.lone[place]:
        quoted = place > 0 and words.folded[place - 1] in QUOTING
        return not quoted and _complete(words, place) and not _restricted(words, place)
    verb = words.folded[place - 1]
    if words.negated[place] or verb not in TRIGGERS or not _ends(words, place):
        return False
    return verb != "say" or any(word in SAYING for word in words.folded[max(place - 4, 0) : place])


def _ends(words: Words, place: int) -> bool:
    """Whether a word is the last of its clause."""
    return words.is_last(place) or words.ends_clause(place + 1)


def _complete(words: Words, place: int) -> bool:
    """Whether a word is an answer without what follows it; `no` in front of a noun is none."""
    if words.folded[place] in LOOSE or words.is_last(place):
        return True
    following = words.words[place + 1]
    if words.delimited(place) == "." and following[0].isdigit():  # No. 1
        return False
    if (words.delimited(place) != "" and words.gaps[place + 1] != "_") or following.casefold() in AFTER_NO:
        return True
    if place == 0 and following.casefold() == "match" and words.is_last(1):  # No match.
        return True
    if words.folded[max(place - 2, 0) : place][-1:] == ["a"] and words.folded[place - 2] in TRIGGERS:
        return following.casefold() in ABOUT_WHAT  # it's a no from me
    again = words.folded[place] == words.folded[place + 1]
    return again and (_ends(words, place + 1) or words.folded[place + 2] == words.folded[place])


def _restricted(words: Words, place: int) -> bool:
    """Whether the word is only talked about, and not called right (`yes is wrong`), or has a condition (`yes if`)."""
    rest = words.folded[place + 1 : place + 6]
    if not rest or words.ends_sentence(place + 1):
        return False
    if rest[0] in HEDGES or (rest[0] == "only" and rest[1:2] and rest[1] in HEDGES):
        return True
    if words.ends_clause(place + 1) or not (rest[0] in JUDGING or rest[0].endswith("n't")):
        return False
    wrong = any(word in WRONG or word.endswith("n't") for word in rest)
    return wrong or not any(word in RIGHT for word in rest)


def _contradicted(words: Words, forms: Mapping[str, YesNo], answer: YesNo, mark: int) -> bool:
    """Whether the text asserts the opposite, too; behind a mark in its sentence or at the start of another."""
    near = True
    for place in range(mark + 1, len(words.words)):
        near = near and (mark < 0 or not words.ends_sentence(place))
        if forms.get(words.folded[place]) not in (None, answer):
            if (near or words.opening[place]) and _opposes(words, place, forms):
                return True
        elif answer == "yes" and near and denies(words, place):
            return True
    return False


def _opposes(words: Words, place: int, forms: Mapping[str, YesNo]) -> bool:
    """Whether a word asserts something at the start of a clause, behind `and` or `but`, or as in `makes it no`."""
    before = words.folded[max(place - 2, 0) : place]
    joined = before[-1:] != [] and (before[-1] in JOINERS or (before[-1] == "a" and before[0] in JOINERS))
    made = before[-1:] == ["it"] and _ends(words, place)
    if not (words.lone[place] or joined or made) or _alternative(words, place, forms) or _restricted(words, place):
        return False
    return _complete(words, place) or words.folded[place + 1] in ABOUT_WHAT


def _alternative(words: Words, place: int, forms: Mapping[str, YesNo]) -> bool:
    """Whether a word is joined to its opposite: `yes or no`, `yes/no`, `yes and no`."""
    for step in (-1, 1):
        other = place + step
        if not 0 <= other < len(words.words):
            continue
        gap = words.gaps[max(place, other)]
        joined = "/" in gap or "|" in gap
        if not joined and words.folded[other] in ALTERNATIVES:
            other += step
            joined = 0 <= other < len(words.words)
        if joined and forms.get(words.folded[other]) not in (None, forms[words.folded[place]]):
            return True
    return False
