"""What stands around a letter of the alphabet in an answer, and what that says about it."""

from __future__ import annotations

from itertools import pairwise

from muvr_train.rerank.answer_words import ALTERNATIVES, REASONS, RIGHT, WRONG, Words, word_set

TRIGGERS = word_set("it's that's option choice answer")
VERBS = word_set("is be")
SUBJECTS = word_set("answer option choice solution selection response it this")
"""What may be said to be a letter; the text on a sign or a blood type may not."""
ASKED = word_set("answer option choice")
BETWEEN_SUBJECT = word_set("must would should could can will therefore thus then hence most likely probably clearly to")
CONCLUDING = word_set("so therefore thus hence")
TITLES = word_set("mr mrs ms dr st vs")
SUFFIXES = word_set("mp4 avi mkv mov webm gif jpg jpeg png txt pdf json")
REFUSING = word_set("not unable unavailable unknown unclear sorry cannot can't none i'm i i'd i've i'll as")
OWN = word_set("as however too for unfortunately personally being like myself therefore sadly honestly also i i'm with")
"""What follows the pronoun I behind a comma or a dash."""
SELF = word_set("am i'm i've i'll i'd my me myself cannot can't unable sorry ai assistant don't")
LIST_SIGNS = (":", ".", ")", "(", "-", "–", "—")
"""What stands behind letters that are listed; not a comma: `B, because A, C and D are wrong`."""
EXCLUDING = word_set("not never neither nor than instead unlike")
PERHAPS = word_set("possibly maybe perhaps even rather probably")


def is_letter(word: str) -> bool:
    """Whether a word is one letter from a to z, in any case."""
    return len(word) == 1 and word.isascii() and word.isalpha()


def in_name(words: Words, place: int) -> bool:
    """Whether a letter is a part of a name: `C++`, `B&B`, `B.mp4`, `Mr. B`."""
    before, after = words.gaps[place], words.gaps[place + 1]
    titled = place > 0 and words.folded[place - 1] in TITLES and before == ". "
    suffixed = after == "." and not words.is_last(place) and words.folded[place + 1] in SUFFIXES
    joined = after == "&" or before == "&" or after[:1] in ("+", "#", "%", "°", "@")
    formula = after.lstrip()[:1] == "=" and after.lstrip()[1:2] != ">"  # E = mc2
    return suffixed or joined or titled or formula


def is_no_word(words: Words, place: int, valued: bool = False) -> bool:
    """Whether what follows makes a capital a letter, and neither an article nor a pronoun.

    Args:
        words: the answer.
        place: of the capital.
        valued: it stands behind a mark: a comma may follow an I, as where it is the first word or behind `option`.
    """
    delimiter = words.delimited(place)
    if not delimiter:
        return words.folded[place + 1] in REASONS
    if words.words[place] != "I" or delimiter in ("end", ")", ".", ":", "*", "\n", "]", "}", '"', "!"):
        return True
    if words.is_last(place):
        return delimiter != ","
    first = valued or not place or words.folded[place - 1] in ASKED
    return (delimiter in "-–—(;" or (delimiter == "," and first)) and not _is_pronoun(words, place)


def _is_pronoun(words: Words, place: int) -> bool:
    """Whether an I with a sign behind it speaks of itself: `I, as an AI, cannot`."""
    rest = words.folded[place + 1 : place + 12]
    return (rest[:1] == ["a"] and "model" in rest) or rest[0] in OWN or any(word in SELF for word in rest)


def is_weighed(words: Words, place: int) -> bool:
    """Whether another letter stands with the same sign behind it in its line: `A (10%), B (90%)`."""
    sign, bracketed = words.delimited(place), words.bracketed(place)
    if not bracketed and sign not in LIST_SIGNS:
        return False
    word, far = words.words[place], min(place + 60, len(words.words))
    for other in range(place + 1, far):
        if "\n" in words.gaps[other]:
            return False
        letter = words.words[other]
        if not is_letter(letter) or letter.islower() != word.islower() or letter == word:
            continue
        ruled_out = any(one in EXCLUDING or one.endswith("n't") for one in words.folded[max(other - 3, 0) : other])
        if words.bracketed(other) != bracketed or ruled_out or refuted(words, other, 6):
            continue
        if bracketed or (words.delimited(other) == sign and _goes_on(words, place, other, sign)):
            return True
    return False


def _goes_on(words: Words, place: int, other: int, sign: str) -> bool:
    """Whether a letter goes on with a list; before a full stop it may end a sentence: `B. It is vitamin C. Right`."""
    if words.is_last(other):
        return False
    noted = all("(" in words.gaps[at + 1] for at in (place, other))
    return sign != "." or noted or ord(words.words[other].upper()) == ord(words.words[place].upper()) + 1


def refuted(words: Words, place: int, reach: int = 3) -> bool:
    """Whether its clause goes on to say, in so many words, that the letter is wrong; `B (not A)` does not."""
    for other in range(place + 1, min(place + 1 + reach, len(words.words))):
        if words.ends_clause(other) or (other == place + 1 and _denies_another(words, other)):
            return False
        if words.folded[other] in WRONG or words.folded[other].endswith("n't"):
            return True
    return False


def _denies_another(words: Words, place: int) -> bool:
    """Whether a `not` is followed by nothing but a capital: `not A`."""
    if words.folded[place] != "not" or words.is_last(place):
        return False
    letter = words.words[place + 1]
    return is_letter(letter) and letter.isupper() and words.delimited(place + 1) != ""


def refuses(words: Words, place: int) -> bool:
    """Whether no option's text follows, but a refusal: `A: I can't view images`."""
    return not words.is_last(place) and words.delimited(place) == ":" and words.folded[place + 1] in REFUSING


def has_alternative(words: Words, place: int) -> bool:
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
    joined = any(sign in gap for sign in ",/&+|、-–—~→>") and not words.ends_sentence(max(place, other))
    joined = joined or ("(" in gap and words.bracketed(other))  # C (E)
    if words.words[other] in ALTERNATIVES:
        other, joined = other + step, True
    if (joined or "(" in gap) and 0 <= other < len(words.words) and words.folded[other] in PERHAPS:
        other, joined = other + step, True
    if not joined or not 0 <= other < len(words.words):
        return None
    if not is_letter(words.words[other]) or words.words[other].islower() != words.words[place].islower():
        return None
    article = words.words[other] in "AIai" and not words.delimited(other) and not words.bracketed(other)
    followed = "" if words.is_last(other) else words.folded[other + 1]
    return None if article and followed not in ALTERNATIVES else words.words[other].upper()


def is_said_of_answer(words: Words, place: int) -> bool:
    """Whether what stands right before says it of the answer: `it must be B`, `option B`."""
    if words.folded[place - 1] in TRIGGERS:
        return True
    subject = place - 2
    while subject > max(place - 7, 0) and words.folded[subject] in BETWEEN_SUBJECT:
        subject -= 1
    return words.folded[place - 1] in VERBS and is_subject(words, subject)


def is_subject(words: Words, place: int) -> bool:
    """Whether a word means the answer: `the answer`, `the right one`, `the closest`, `the answer to the question`."""
    if place < 0:
        return False
    before = sentence_before(words, place)
    if words.folded[place] in SUBJECTS | RIGHT:
        return True
    if words.folded[place] in ("one", "letter"):
        return any(word in RIGHT for word in before[-2:])
    if words.folded[place] == "that":
        return not before or words.ends_clause(place) or before[-1] in CONCLUDING
    pairs = pairwise([*before, words.folded[place]])
    return any(noun in ASKED and about in ("to", "for", "that", "which", "here") for noun, about in pairs)


def sentence_before(words: Words, place: int) -> list[str]:
    """Up to twelve words of its sentence in front of a word."""
    start = place
    while start > max(place - 12, 0) and not words.ends_sentence(start):
        start -= 1
    return words.folded[start:place]
