"""What takes a yes or no back without its opposite: `Yes, but the condition is violated`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from muvr_train.rerank.answer_words import NEGATORS, Words, word_set

CERTAINLY = word_set("absolutely definitely certainly course clearly probably")
JOINERS = word_set("and but yet so or hence thus then therefore otherwise")
CONTRASTS = JOINERS | word_set("though although because since as while whereas however")
CONDITION = word_set(
    "condition conditions requirement requirements criterion criteria constraint constraints restriction restrictions "
    "tag tags"
)
NOT_A_MATCH = CONDITION | word_set(
    "match matches matching matched same similar related one thing frame frames scene scenes shot shots part moment "
    "second video clip query candidate"
)
"""What `not a single` is said of, or goes on with, where it may take the yes back."""
MEETING = word_set("meet meets met satisfy satisfies satisfied fulfil fulfill fulfilled")
HOLDING = word_set(
    "hold holds held apply applies comply complies conform conforms fulfils fulfills meeting satisfying fulfilling "
    "true pass passes passed respect respects respected follow follows followed observed valid"
)
"""Verbs that are about a condition only where one is named beside them."""
BREAKING = word_set(
    "violate violates violated violating fail fails failed failing unmet unsatisfied unfulfilled break breaks broken "
    "breaking breach breaches breached breaching contradict contradicts contradicted contradicting false against"
)
KEEPING = word_set("not never neither nor cannot without nothing none hardly")
ABSENT = word_set("no none neither nothing any")
RELATIVE = word_set("that which who to")
PARTIES = word_set("it they candidate video videos clips this")
QUALIFYING = NEGATORS - {"wrong", "incorrect"} | word_set(
    "no nope nothing none nobody hardly only but however although though while whereas if unless would could might may "
    "said says say claims differ differs different whether except yet still until before"
)
"""What leaves a `no` as it is where a match is spoken of."""
AFFIRMING = word_set(
    "so thus therefore hence then it it's this that that's they both is are do does indeed clearly definitely actually "
    "the candidate target video videos a match matches"
)

_STEMS: dict[str, tuple[str, str]] = {
    "zh": ("条件 要求 标签 满足 符合 达到 成立 匹配", "不 未 没 违 无法 失败"),
    "es": ("condici requisit criterio etiqueta cumpl satisf coincid", "no viol* incumpl* falla* tampoco"),
    "fr": (
        "condition exigence critère étiquette rempli respect satisf correspond",
        "n'* ne pas non viol* échou* enfreint",
    ),
    "de": ("bedingung kriteri anforderung erfüll entspr", "nicht kein* verletz* verstö* unerfüllt*"),
    "pt": ("condiç requisito critério etiqueta cumpr satisf atend correspond", "não nao viol* falh* descumpr*"),
    "it": ("condizion requisit criterio etichett soddisf rispett corrispond", "non viol* falli*"),
    "nl": ("voorwaard eis criteri voldo voldaan vervuld overeen", "niet geen schend* geschonden"),
    "pl": ("warun wymag kryteri spełni pasuj", "nie narusz* niespełn*"),
    "ru": ("услови требовани критери выполн соблюд соответств удовлетвор совпад", "не ни наруш* невыполн*"),
    "uk": ("умов вимог критері викон дотрим відповіда задовольн збіга", "не ні поруш*"),
    "tr": ("koşul şart gereklil", "değil karşılamı* karşılanmı* sağlamı* sağlanmı* uymu* ihlal*"),
    "ar": ("شرط الشرط شروط الشروط يستوف مستوف يحقق يتحقق", "لا لم غير ليس ليست ينتهك* انتها*"),
    "hi": ("शर्त पूर मानदंड", "नहीं न उल्लंघन*"),
    "ja": ("条件 要件 タグ 満た 当てはま 合致 一致", "ない ません 違反 なかった"),
    "ko": ("조건 요건 태그 충족 만족 일치", "않 못 위반 불일치 없"),
    "vi": ("điều kiện đáp thỏa thoả phù", "không chưa chẳng vi"),
    "id": ("syarat kondisi kriteria memenuhi terpenuhi cocok", "tidak bukan belum tak melanggar gagal"),
}
"""Language -> how words of a condition and of meeting it begin, and what says no or breach (`*`: how it begins).

What is written without spaces is looked for anywhere.
"""
_UNSPACED = ("zh", "ja", "ko")
_UNBROKEN = word_set("没有违反 未违反 不违反 没违反 違反していない 違反していません 違反しない 違反しません")
_OPENING_QUOTES, _CLOSING_QUOTES = "“«「『„", "”»」』"


def denies(words: Words, place: int) -> bool:
    """Whether a word says that there is no match or that a condition is not met."""
    word, before = words.folded[place], words.folded[max(place - 2, 0) : place]
    if word == "not" or word.endswith("n't"):
        return _not(words, place)
    if word in MEETING and words.negated[place]:
        return any(one in NEGATORS or one.endswith("n't") for one in before)
    if word in BREAKING:
        return not _kept(words, place) and (_of_condition(words, place) or _it_breaks(words, place))
    if word in HOLDING:
        return any(one == "not" or one.endswith("n't") for one in before) and _of_condition(words, place)
    if word in ("match", "matches"):
        return _no_match(words, place)
    return False


def _not(words: Words, place: int) -> bool:
    """Whether `not` denies: at the start of a sentence, or said of the condition (`the condition is not`)."""
    if place and _ends(words, place) and any(word in CONDITION for word in _clause(words, place)[0]):
        return True
    if words.folded[place] != "not" or words.folded[place + 1 : place + 2] == ["only"]:
        return False
    if not place or words.ends_sentence(place) or words.folded[place - 1] in CERTAINLY:
        return not _lacks(words, place)
    if words.folded[place - 1] in CONDITION and words.ends_clause(place):  # condition: not shown
        return True
    joined = words.folded[place - 1] in JOINERS or words.ends_clause(place) or "(" in words.gaps[place]
    return joined and any(word in CONDITION for word in _clause(words, place)[1][:4])


def _no_match(words: Words, place: int) -> bool:
    """Whether there is none: `not a match`, `no match`, `it does not match`."""
    before = words.folded[max(place - 3, 0) : place]
    if words.folded[place] == "match":
        if before[-2:] in (["not", "a"], ["isn't", "a"]):
            return True
        if before[-1:] == ["no"] and words.lone[place - 1]:
            return _ends(words, place)
    verb = before[:-1] if before[-1:] == ["not"] else before
    negated = before[-1:] == ["not"] or before[-1:] in (["doesn't"], ["don't"])
    return negated and any(word in PARTIES for word in verb) and _ends(words, place)


def _of_condition(words: Words, place: int) -> bool:
    """Whether its clause, or the word before, names a condition."""
    before, after = _clause(words, place)
    return words.folded[place - 1] in CONDITION or any(word in CONDITION for word in (*before, *after))


def _it_breaks(words: Words, place: int) -> bool:
    """Read `but it violates it`, `which it fails`."""
    about = words.folded[place + 1 : place + 2] in ([], ["it"], ["this"], ["that"]) or _ends(words, place)
    before = words.folded[max(place - 2, 0) : place]
    return about and before[-1:] == ["it"] and (before[0] in CONTRASTS or before[0] == "which")


def _kept(words: Words, place: int) -> bool:
    """Whether nothing is broken: `does not violate`, `no condition is violated`, `no text that would violate it`."""
    before = _clause(words, place)[0]
    joined = max((at for at, word in enumerate(before) if word in CONTRASTS), default=-1)
    if any(word in KEEPING or word.endswith("n't") for word in before[joined + 1 :][-3:]):
        return True
    for at, word in enumerate(before):
        if word in ABSENT and any(one in CONDITION for one in before[at + 1 : at + 4]):
            return True
    helping = bool(before) and before[-1] in ("would", "could", "might", "may", "can")
    linked = before[:-1] if helping else before
    return linked[-1:] != [] and linked[-1] in RELATIVE and any(word in KEEPING or word == "no" for word in linked)


def _clause(words: Words, place: int) -> tuple[list[str], list[str]]:
    """Up to ten words of its clause before a word, and behind it."""
    start, end = place, place + 1
    while start > max(place - 10, 0) and not words.ends_clause(start):
        start -= 1
    while end < min(place + 11, len(words.words)) and not words.ends_clause(end):
        end += 1
    return words.folded[start:place], words.folded[place + 1 : end]


def _ends(words: Words, place: int) -> bool:
    return words.is_last(place) or words.ends_clause(place + 1)


def _lacks(words: Words, place: int) -> bool:
    """Whether a `not` only says that something is not shown, as in `Not a single subtitle is seen`."""
    end = place + 3
    while end < len(words.words) and not words.ends_sentence(end) and end < place + 15:
        end += 1
    rest = words.folded[place + 3 : end]
    single = words.folded[place + 1 : place + 3] == ["a", "single"] and not words.ends_sentence(min(place + 3, end))
    return single and bool(rest) and not any(word in NOT_A_MATCH | MEETING for word in rest)


def affirms(words: Words) -> bool:
    """Whether an answer that says no ends with nothing but that it is a match: `No, I was wrong: it's a match`."""
    last = len(words.words) - 1
    if last < 2 or words.folded[last] not in ("match", "matches") or "?" in words.gaps[-1]:
        return False
    before = _clause(words, last)[0]
    subject = any(word in ("it", "it's", "this", "that's", "they", "candidate", "videos") for word in before)
    said = subject and before[-1:] != ["the"] and all(word in AFFIRMING for word in before)
    return said and not any(word in QUALIFYING or word.endswith("n't") for word in words.folded[1:])


@lru_cache
def _stems(languages: tuple[str, ...]) -> tuple[tuple[bool, tuple[str, ...], tuple[str, ...]], ...]:
    found = []
    for language in languages:
        if language in _STEMS:
            nouns, negations = _STEMS[language]
            found.append((language in _UNSPACED, tuple(nouns.split()), tuple(negations.split())))
    return tuple(found)


def denies_condition(words: Words, start: int, languages: tuple[str, ...], one_sentence: bool) -> bool:
    """Whether a clause of another language speaks of a condition and says no or breach, quotations left out.

    Args:
        words: the answer.
        start: first word that is looked at.
        languages: whose words are read; English is not among them.
        one_sentence: look no further than the end of the sentence.
    """
    stems = _stems(languages)
    if not stems:
        return False
    clause: list[str] = []
    quoted = False
    for place in range(start, len(words.words)):
        gap = words.gaps[place]
        if one_sentence and place > start and words.ends_sentence(place):
            break
        if words.ends_clause(place) and not quoted:
            if _says_unmet(clause, stems):
                return True
            clause = []
        opened, closed = (max(map(gap.rfind, signs)) for signs in (_OPENING_QUOTES, _CLOSING_QUOTES))
        quoted = opened > closed if opened != closed else quoted
        if not quoted:
            clause.append(words.folded[place])
    return _says_unmet(clause, stems)


def _says_unmet(clause: list[str], stems: Iterable[tuple[bool, tuple[str, ...], tuple[str, ...]]]) -> bool:
    for unspaced, nouns, negations in stems:
        if unspaced:
            text = " ".join(clause)
            for kept in _UNBROKEN:
                text = text.replace(kept, "")
            found = any(noun in text for noun in nouns) and any(one in text for one in negations)
        else:
            found = any(word.startswith(nouns) for word in clause) and _negated(clause, negations)
        if found:
            return True
    return False


def _negated(clause: list[str], negations: tuple[str, ...]) -> bool:
    """Whether words say no or breach; a breach that is denied beside it (`nicht verletzt`) is none."""
    beginnings = tuple(one[:-1] for one in negations if one[-1] == "*" and one != "n'*")
    no = {at for at, word in enumerate(clause) if word in negations or ("n'*" in negations and word.startswith("n'"))}
    breach = {at for at, word in enumerate(clause) if beginnings and word.startswith(beginnings)}
    if not (no and breach):
        return bool(no or breach)
    denied = all(no & {at - 1, at - 2} for at in breach)
    return not denied or any(not breach & {one - 2, one - 1, one + 1, one + 2} for one in no)
