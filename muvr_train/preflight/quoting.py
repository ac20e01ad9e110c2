"""Settings as a user types them, turned into Hydra's override grammar.

Hydra's grammar refuses raw values with `=`, brackets, commas or letters outside ASCII. File names have all of these, so
values of path-like keys are quoted here: they mean the file of exactly that name.
"""

from __future__ import annotations

import re
from pathlib import Path

PATH_KEYS = frozenset(
    {
        "data.videos",
        "data.annotations",
        "benchmark.annotations",
        "data.features",
        "data.images",
        "data.masks",
        "benchmark.questions",
        "benchmark.categories",
        "answerer.path",
        "answerer.scores",
        "answerer.model",
        "answerer.base_url",
        "answers",
        "rerank.masks",
        "ckpt_path",
        "model.weights",
        "scores",
        "calibration_background",
        "annotations",
        "masks",
        "out",
        "videos",
        "features",
        "resume_from",
        "teacher",
        "run",
    }
)


def quote_value(value: str) -> str:
    r"""Write a string so that Hydra and OmegaConf read back exactly this string.

    >>> print(quote_value("it's [a, b]=${c}"))
    'it\'s [a, b]=\${c}'
    """
    value = re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", value)  # OmegaConf: no interpolation
    value = re.sub(r"(\\*)'", lambda found: 2 * found[1] + r"\'", value)  # Hydra: backslashes count before a quote
    value = re.sub(r"(\\+)$", lambda found: 2 * found[1], value)
    return f"'{value}'"


def split_override(text: str) -> tuple[str, str, str | None]:
    """Cut `++key=value` into prefix, key and value (None where there is no `=`).

    >>> split_override("++data.videos=a=b")
    ('++', 'data.videos', 'a=b')
    """
    prefix = text[: len(text) - len(text.lstrip("+~"))]
    key, equals, value = text[len(prefix) :].partition("=")
    return prefix, key, value if equals else None


def quote_override(text: str, multirun: bool = False) -> str:
    """Quote the value of a path-like key; every other setting is left as it was typed.

    A value of the grammar's own is kept: `null`, a string in quotes, `${...}`, with `multirun` several values with
    commas between them, and for `scores` a list in brackets. Where a file has exactly the typed name, that file is
    meant instead.
    """
    prefix, key, value = split_override(text)
    if key not in PATH_KEYS or not value or prefix == "~" or value == "null":
        return text
    if not _exists(value):
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            return text
        if re.fullmatch(r"[^'\"]*\$\{[\w.:%,\- ]+\}[^'\"]*", value) or value.startswith(("glob(", "choice(")):
            return text
        if key == "scores" and re.fullmatch(r"\[[^][]*\]", value):
            return f"{prefix}{key}=[{_quote_each(value[1:-1])}]"
        if multirun and "," in value:
            return f"{prefix}{key}={_quote_each(value)}"
        if value.startswith("~"):
            value = str(Path(value).expanduser())
    return f"{prefix}{key}={quote_value(value)}"


def _quote_each(values: str) -> str:
    parts = [part.strip() for part in values.split(",")]
    return ",".join(part if part[:1] in ("'", '"') else quote_value(part) for part in parts if part)


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # too long, or a character that no file name can have
        return False
