"""Answers of language models as words and what stands between them: what `parsing` reads.

Every step takes time linear in the text, so that a runaway answer of a megabyte does no harm.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

_THINKING = re.compile(r"[<◁](/?)(?:think|thinking|thought|reasoning)[>▷]", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[^<>|\n]{1,40}\|>|</s>|[\u200b-\u200f\u2060\ufeff\u00ad]")
_HALVES = re.compile("[\ufffd\ud800-\udfff]")
_STYLED = re.compile(r"<(strong|em|b|i|u|code|mark|span|p)>([^<>]{0,200})</\1>")
_MARKED = re.compile(r"\\boxed\b|<\s{0,4}answer\s{0,4}>", re.IGNORECASE)
_TAG_END = re.compile(r"<\s{0,4}/\s{0,4}\w{1,20}\s{0,4}>")
_LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|bf|rm)\b")
_EAST_ASIAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_BORDER = re.compile(rf"(?<=[{_EAST_ASIAN}])(?=[A-Za-z])|(?<=[A-Za-z])(?=[{_EAST_ASIAN}])")
_VOWEL_SIGNS = "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e"
_LETTER = rf"(?:[^\W_]|[{_VOWEL_SIGNS}])"
_WORD = re.compile(rf"(?:[A-Za-z]\.){{2,}}|\d(?:[\d.,:]*\d)?(?!{_LETTER})|{_LETTER}+(?:['’-]{_LETTER}+)*")
_SENTENCE_END = re.compile(r"[.!?;\n。؟।]")
_CLAUSE_END = re.compile(r"[,:=|/、،—–→>]|(?:^|\s)-|-(?:\s|$)")
SOFT = " \t\r\n*_`~$\\#"
"""What surrounds a word without meaning: spaces, markdown, LaTeX."""
_OPENERS, _CLOSERS = "([{<\"'“‘„«「『【", ")]}>\"'”’“»」』】"


def word_set(text: str) -> frozenset[str]:
    """Make a set of the words of a text."""
    return frozenset(text.split())


FILLERS = word_set(
    "a actually also an and answer answers appears be because believe best but certainly choice choose clear clearly "
    "conclude conclusion correct definitely direct final finally go hence i i'd i'll i'm in indeed is it it's its just "
    "likely me most must my now of ok okay option our overall pick probably question response result right say seems "
    "select short should simply so sorry still summary sure that that's the then therefore think this thus to verdict "
    "wait we we'd well will with would your letter it'd based on all would've lean leaning towards toward vote "
    "unfortunately sadly hmm "
    "la le el die der das il é è es est ist also donc alors entonces dann "
    "所以 因此 因而 故 答案 答案是 答案为 选 选择 应选 我选 我选择 故选 选项 "
    "答え 答えは 正解は 정답 정답은 답 답은 따라서"
)
"""Words that may stand before an answer without changing it."""
NEGATORS = word_set("not never neither nor cannot can't without unlikely wrong incorrect instead rather than")
HEDGES = word_set("if unless")
ALTERNATIVES = word_set("or and & nor und oder y o e et ou и или 或 和 または")
REASONS = word_set("because since as")
AFTER_VALUE = ALTERNATIVES | REASONS | {"but", "not"}
MARKS = word_set(
    "answer ans verdict conclusion decision choice option selection solution response prediction "
    "答案 回答 结论 选项 答え 正解 정답 답 उत्तर الإجابة الجواب ответ відповідь "
    "respuesta réponse antwort resposta risposta cevap odpowiedź antwoord jawaban"
)
"""Nouns behind which the answer stands, with a colon or `is`."""
MARKS_WITH_IS = ("答案是", "答案为", "结论是", "答えは", "正解は", "정답은", "답은")
"""How words end behind which the answer stands directly."""
ADJECTIVES = word_set("correcta correcte correta corretta")
"""What may stand between such a noun and its `is`."""
FINAL = word_set("final overall")
"""What makes a mark go before the others, alone or in front of a noun: `Overall: no`, `final verdict: no`."""
FINAL_NOUNS = FINAL | word_set("match result judgment judgement assessment evaluation")
RIGHT = word_set("correct right best accurate answer true closest choice")
WRONG = word_set("not wrong incorrect false isn't cannot can't doesn't neither")
COPULAS = word_set("is was be would should must es est ist é è jest adalah")


class Mark(NamedTuple):
    """A value behind a mark.

    Attributes:
        place: which word the value is.
        sign: whether a sign stands before it (`Answer: X`), not a verb.
        final: whether it is marked as the last word: `Final answer: X`, `Overall: X`.
    """

    place: int
    sign: bool
    final: bool


def after_thinking(text: str) -> str:
    """Cut away blocks of thinking: what stands behind the last one; what precedes one that never ends.

    >>> after_thinking("<think>A or B?</think>B")
    'B'
    """
    start, end = 0, len(text)
    for mark in _THINKING.finditer(text):
        if mark[1]:
            start, end = mark.end(), len(text)
        else:
            end = min(end, mark.start())
    return text[start:end]


def cleaned(text: str) -> str:
    """Leave out thinking, signs that no reader sees, halves of characters and HTML that styles."""
    text = _SPECIAL.sub("", unicodedata.normalize("NFKC", after_thinking(text)))
    return _STYLED.sub(r"**\2**", _HALVES.sub(" ", text))


@dataclass
class Words:
    """The words of an answer.

    Attributes:
        words: as they are written, after Unicode NFKC (full-width letters become plain ones).
        folded: the same, without case and with straight apostrophes.
        gaps: what stands between: `gaps[i]` is before word i, the last one is behind the last word.
        lone: whether all words before it in its clause are fillers.
        opening: whether all words before it in its sentence are fillers.
        negated: whether the clause holds a negation before it.
        doubted: whether the sentence is a question or sets a condition before it.
    """

    words: list[str]
    folded: list[str]
    gaps: list[str]
    lone: list[bool] = field(default_factory=list)
    opening: list[bool] = field(default_factory=list)
    negated: list[bool] = field(default_factory=list)
    doubted: list[bool] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Words:
        """Split an answer, thinking left out."""
        text = _TAG_END.sub("\n", _MARKED.sub(" answer: ", cleaned(text)))
        text = _BORDER.sub(" ", _LATEX.sub(" ", text))
        words, gaps, end = [], [], 0
        for found in _WORD.finditer(text):
            words.append(found[0])
            gaps.append(text[end : found.start()])
            end = found.end()
        gaps.append(text[end:])
        read = cls(words, [word.casefold().replace("’", "'") for word in words], gaps)
        read._look_around()
        return read

    def _look_around(self) -> None:
        lone = opening = True
        negated = hedged = False
        for place, word in enumerate(self.folded):
            if place and self.ends_clause(place):
                lone, negated = True, False
            if place and self.ends_sentence(place):
                opening, hedged = True, False
            self.lone.append(lone)
            self.opening.append(opening)
            self.negated.append(negated)
            self.doubted.append(hedged)
            filler = word in FILLERS
            lone, opening = lone and filler, opening and filler
            negated = negated or word in NEGATORS or word.endswith("n't")
            hedged = hedged or word in HEDGES
        asked = False
        for place in range(len(self.words) - 1, -1, -1):
            if self.ends_sentence(place + 1) or place + 1 == len(self.words):
                asked = "?" in self.gaps[place + 1] or "؟" in self.gaps[place + 1]
            self.doubted[place] = self.doubted[place] or asked

    def ends_sentence(self, gap: int) -> bool:
        """Whether a sentence or line ends in the gap before word `gap`."""
        return _SENTENCE_END.search(self.gaps[gap]) is not None

    def ends_clause(self, gap: int) -> bool:
        """Whether a clause ends in the gap before word `gap`; brackets and quotes end none."""
        return self.ends_sentence(gap) or _CLAUSE_END.search(self.gaps[gap]) is not None

    def is_last(self, place: int) -> bool:
        """Whether nothing but marks and spaces follows."""
        return place == len(self.words) - 1

    def delimited(self, place: int) -> str:
        """The first sign behind a word: "end" where nothing follows, "" where only a space parts it from the next."""
        gap = self.gaps[place + 1]
        if sign := gap.lstrip(SOFT)[:1]:
            return sign
        if self.is_last(place):
            return "end"
        return "\n" if "\n" in gap else gap[:1].strip()

    def bracketed(self, place: int) -> bool:
        """Whether a word stands alone in brackets or quotes."""
        before, after = self.gaps[place].rstrip(SOFT)[-1:], self.gaps[place + 1].lstrip(SOFT)[:1]
        return before != "" and before in _OPENERS and after != "" and after in _CLOSERS

    def marked(self) -> list[Mark]:
        """Where a value stands behind a mark: `Answer: X`, `Answer (one letter): X`, `the answer is X`."""
        found = []
        for place, word in enumerate(self.folded[:-1]):
            attached = word.endswith(MARKS_WITH_IS)
            before = self.folded[place - 1] if place and not self.ends_clause(place) else ""
            final = before in FINAL or (word in FINAL and not before)
            if not (attached or word in MARKS or (final and word in FINAL_NOUNS)) or self.negated[place]:
                continue
            last = self._note_end(place)
            adjective = last + 2 < len(self.words) and self.folded[last + 1] in ADJECTIVES
            last += adjective and not self.gaps[last + 1].strip(SOFT)
            gap = self.gaps[last + 1].strip(SOFT)
            sign = any(one in gap for one in ":=>→-–—") or (not gap and "\n" in self.gaps[last + 1])
            verb = not gap and (attached or self.folded[last + 1] in COPULAS)
            if sign or verb:
                found.append(Mark(self._value(last + 1), sign, final))
        return [mark for mark in found if mark.place < len(self.words)]

    def _note_end(self, place: int) -> int:
        """Skip a short note in brackets behind a mark."""
        if self.gaps[place + 1].strip(SOFT)[:1] == "(":
            for last in range(place + 1, min(place + 9, len(self.words) - 1)):
                if ")" in self.gaps[last + 1]:
                    return last
        return place

    def _value(self, place: int) -> int:
        """Skip up to five fillers, but no single letter that may be the value itself."""
        for _ in range(5):
            if place >= len(self.words) or self.folded[place] not in FILLERS or self._may_be_value(place):
                break
            place += 1
        return place

    def _may_be_value(self, place: int) -> bool:
        following = "" if self.is_last(place) else self.folded[place + 1]
        return len(self.words[place]) == 1 and (self.delimited(place) != "" or following in AFTER_VALUE)
