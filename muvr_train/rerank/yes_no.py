"""Where yes and no stand in an answer as what it says, in several languages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from muvr_train.errors import ConfigError
from muvr_train.rerank.answer_words import ALTERNATIVES, REASONS, Words, word_set

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
    "tr": ("evet", "hayır"),
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


def check_languages(languages: Sequence[str]) -> None:
    """Refuse a language whose yes and no are not known.

    Raises:
        ConfigError: with the nearest known one.
    """
    if isinstance(languages, str) or not languages:
        raise ConfigError(f"languages must be a list such as [en], got {languages!r}")
    for language in languages:
        if language not in YES_NO:
            near = difflib.get_close_matches(str(language), YES_NO, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"languages: yes and no are not known in {language!r}{meant} Known: {', '.join(YES_NO)}")


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


def yes_no_places(words: Words, forms: Mapping[str, YesNo]) -> tuple[set[YesNo], dict[int, YesNo]]:
    """Collect what is said.

    Returns:
        (what stands behind a mark, what stands by itself: at which word).
    """
    marked: set[YesNo] = set()
    for place, _ in words.marked():
        said = forms.get(words.folded[place])
        if said and _complete(words, place) and not _alternative(words, place, forms) and not words.doubted[place]:
            marked.add(said)
    return marked, {place: forms[word] for place, word in enumerate(words.folded) if _stands(words, place, forms)}


def _stands(words: Words, place: int, forms: Mapping[str, YesNo]) -> bool:
    """Whether a word stands where it is an answer."""
    if words.folded[place] not in forms or words.doubted[place] or _alternative(words, place, forms):
        return False
    if words.lone[place]:
        return _complete(words, place)
    ends = words.is_last(place) or words.ends_clause(place + 1)
    return ends and not words.negated[place] and words.folded[place - 1] in TRIGGERS


def _complete(words: Words, place: int) -> bool:
    """Whether a word is an answer without what follows it; `no` in front of a noun is none."""
    if words.folded[place] in LOOSE or words.is_last(place):
        return True
    following = words.words[place + 1]
    if words.delimited(place) == "." and following[0].isdigit():  # No. 1
        return False
    return words.delimited(place) != "" or following.casefold() in AFTER_NO


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
