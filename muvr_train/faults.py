"""Where a class or a function of the user's own fails, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def place_of(error: BaseException) -> str:
    """Write an error with its file and line: the last ones of the user's own code, if there are any.

    >>> place_of(ValueError("too small"))
    'ValueError: too small'
    """
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):
        shown = f": {error.text.strip()}" if error.text else ""
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}{shown}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}: {text}" if own else text


def is_users(file: str) -> bool:
    """Whether a file is neither of this package nor installed nor of Python itself."""
    path = Path(file)
    return (
        path.is_file()
        and PACKAGE not in path.resolve().parents
        and "site-packages" not in path.parts
        and path.parts[-2:-1] != ("importlib",)
        and Path(traceback.__file__).resolve().parent not in path.resolve().parents
    )
