"""What a model is asked, word by word: pure functions from facts to texts and visuals in order.

The wording is our own. Every cached answer belongs to its prompt, so a changed word asks all questions anew; the tests
hold the prompts as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from muvr_train.benchmarks.expressions import Condition, Or, conditions_of, parse
from muvr_train.features.placeholders import replace_placeholders
from muvr_train.rerank.outline import COLOUR
from muvr_train.rerank.types import Visual

Parts = tuple[str | Visual, ...]

YES_NO = "Answer with yes or no only."
LETTER = "Answer with the letter of the right option only."
REASONING = (
    'First reason step by step. Then end with one more line, "Final answer: X", where X is the letter of the right '
    "option."
)
MATCH = "It is a match if it shows the footage, event, object, place or action that the query is about."


def match_by_images(
    query: Visual, candidate: Visual, text: str, expression: str, outlined: bool, one_frame: bool = False
) -> Parts:
    """Ask whether a candidate video matches a query that is shown (MUVR-QA, multi-image comparison; reranking).

    Args:
        query: its frame or frames.
        candidate: frames of the other video.
        text: the query's description as annotated, "" where there is none.
        expression: tag expression that the candidate must meet, "" for none.
        outlined: whether the query's frames have a region outlined.
        one_frame: whether the candidate is one frame.

    Raises:
        DataError: the expression cannot be read.
    """
    seen = "a frame" if query.kind == "image" else "frames"
    line = f" The marked object is outlined in {COLOUR}." if outlined else ""
    return (
        f"Decide whether a candidate video is a match for a query. {MATCH}\n\n"
        f"The query is a video, of which you see {seen}.{line}",
        query,
        f"{_about(text, expression, outlined)}The candidate video, {_frames(one_frame)}:",
        candidate,
        f"Is the candidate video a match for the query{_and_condition(expression)}? {YES_NO}",
    )


def match_by_text(candidate: Visual, text: str, expression: str, one_frame: bool = False) -> Parts:
    """Ask whether a candidate video matches a description (MUVR-QA, text-only comparison); see `match_by_images`.

    Raises:
        DataError: the expression cannot be read.
    """
    return (
        f"Decide whether a candidate video is a match for a query that is given in words. {MATCH}\n\n"
        f"{_about(text, expression, False)}The candidate video, {_frames(one_frame)}:",
        candidate,
        f"Is the candidate video a match for the query{_and_condition(expression)}? {YES_NO}",
    )


def choose_option(
    question: str,
    options: Mapping[str, str],
    video: Visual | None,
    image: Visual | None,
    image_first: bool = False,
    reasoning: bool = False,
) -> Parts:
    """Ask a question of IV-Bench about a video and an image (arXiv 2504.15415).

    Args:
        question: as annotated.
        options: letter -> text, in the order in which they are shown.
        video: its frames, None for the ablation without.
        image: None for the ablation without.
        image_first: the image stands before the video.
        reasoning: the model shall reason before it answers.
    """
    shown: list[Parts] = []
    if video is not None:
        shown.append(("The video, frames in order of time:", video))
    if image is not None:
        shown.insert(0 if image_first else len(shown), ("The image:", image))
    lines = [f"{letter}. {_line(text)}" for letter, text in options.items()]
    asked = "\n".join([f"Question: {_line(question)}", "Options:", *lines, REASONING if reasoning else LETTER])
    return (*(part for parts in shown for part in parts), asked)


def condition_phrase(expression: str) -> str:
    """What a video must show and must not, in words.

    >>> condition_phrase("+aerial view"), condition_phrase("-teaching video")
    ('The candidate must show "aerial view".', 'The candidate must not show "teaching video".')
    >>> condition_phrase("AND +crowd -night")
    'The candidate must show "crowd" and must not show "night".'
    >>> condition_phrase("OR +crowd -night")
    'The candidate must show "crowd" or must not show "night"; one of these is enough.'

    Raises:
        DataError: the expression cannot be read.
    """
    parsed = parse(expression)
    phrases = [_phrase(condition) for condition in conditions_of(parsed)]
    either = isinstance(parsed, Or) and len(phrases) > 1
    end = "; one of these is enough." if either else "."
    return f"The candidate {(' or ' if either else ' and ').join(phrases)}{end}"


def describe(text: str, outlined: bool) -> str:
    """A query's description as it is told: places that point at a mask say "the marked object" where it is outlined."""
    return _line(replace_placeholders(text, "name" if outlined else "drop"))


def _phrase(condition: Condition) -> str:
    return f'must {"" if condition.sign > 0 else "not "}show "{_line(condition.tag)}"'


def _about(text: str, expression: str, outlined: bool) -> str:
    """Lines that say what is searched for, and an empty one after them."""
    described = describe(text, outlined)
    lines = [f"Description of the query: {described}"] if described else []
    lines += [f"Condition: {condition_phrase(expression)}"] if expression else []
    return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "")


def _frames(one_frame: bool) -> str:
    return "one frame" if one_frame else "frames in order of time"


def _and_condition(expression: str) -> str:
    return ", and does it meet the condition" if expression else ""


def _line(text: str) -> str:
    return " ".join(text.split())
