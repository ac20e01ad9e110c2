"""Parts of a model that fail, or give what nobody can use, at one method."""

from __future__ import annotations

from typing import Any


class DoesAsTold:
    """Passes on what is sound, but at one method raises an exception or changes it."""

    at: str
    result: Any

    def told(self, name: str, sound: Any) -> Any:
        if name != self.at:
            return sound
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(sound)
