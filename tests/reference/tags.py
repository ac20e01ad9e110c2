"""Slow twins of the scores of MUVR-Filter: one video at a time, plain floats, rules as the golden README words them."""

from __future__ import annotations

import re


def official_scores(base, tag_mode, conditions):
    """Scores of one row: `base` and each of `conditions` (sign, cosines) are lists over the database."""
    adjustments = [sum(sign * cosines[place] for sign, cosines in conditions) for place in range(len(base))]
    if tag_mode == 0:
        return list(base)
    if 0 < tag_mode <= 1:
        return [score + tag_mode * adjustment for score, adjustment in zip(base, adjustments, strict=True)]
    ordered = sorted(base, reverse=True)
    threshold = ordered[min(int(tag_mode), len(base)) - 1]
    return [
        adjustment if score >= threshold else score - 2 for score, adjustment in zip(base, adjustments, strict=True)
    ]


def official_conditions(text):
    """(sign, tag) of an expression that the official program evaluates, None for one that it skips."""
    if text.startswith(("AND", "OR")):
        return None
    return [(1 if part[0] == "+" else -1, part[1:]) for part in re.split(r" (?=[+-])", text)]


def logic_score(text, cosines, means):
    """Score of one video: `cosines` and the `means` over the database by tag."""
    word = text.split(" ")[0]
    body = text.removeprefix("AND ").removeprefix("OR ")
    signed = [sign * (cosines[tag] - means[tag]) for sign, tag in official_conditions(body)]
    return max(signed) if word == "OR" else sum(signed)
