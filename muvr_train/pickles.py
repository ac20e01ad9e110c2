"""Reading pickles that hold numpy arrays in plain containers, and nothing else.

A pickle may call any importable function, and even numpy's own reconstruction accepts states that crash the process. So
no function is imported at all: the few names that numpy writes are answered with small stand-ins, which collect
shape, type and bytes, and the array is made from these by `numpy.frombuffer`.
"""

from __future__ import annotations

import pickle
import re
import struct
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from muvr_train.errors import DataError

_MAX_DEPTH = 50
_SAFE_TYPE = re.compile(r"\|?(b1|[iu][1248]|f[248]|[US]\d{1,6})")
_ByteOrder = Literal["<", ">", "="]
_BYTE_ORDERS: dict[str, _ByteOrder] = {"<": "<", ">": ">", "=": "=", "|": "="}
_BROKEN = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    struct.error,
)


class _NotPlain(pickle.UnpicklingError):
    """The pickle asks for something that is neither a numpy array nor a plain container."""


class _DType:
    """Stands for numpy.dtype: the type code, then the byte order by `__setstate__`."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)
        self.order: _ByteOrder = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        order = order.decode("latin1") if isinstance(order, bytes) else order
        if order not in _BYTE_ORDERS:
            raise _NotPlain(f"an array of byte order {order!r}")
        self.order = _BYTE_ORDERS[order]

    def resolve(self) -> np.dtype[Any]:
        if _SAFE_TYPE.fullmatch(self.code) is None:
            raise _NotPlain(f"an array of type {self.code!r}")
        return np.dtype(self.code.lstrip("|")).newbyteorder(self.order)


class _Array:
    """Stands for an array that is made empty and filled by `__setstate__`."""

    def __init__(self, *_: Any) -> None:
        self.value: npt.NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        self.value = _from_bytes(raw, dtype, shape, "F" if fortran else "C")


def _from_bytes(raw: Any, dtype: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    if not isinstance(dtype, _DType):
        raise _NotPlain(f"an array whose type is a {type(dtype).__name__}")
    kind = dtype.resolve()
    data = raw.encode("latin1") if isinstance(raw, str) else raw
    if isinstance(data, list):
        raise _NotPlain("an array of objects")
    values = np.frombuffer(data, kind) if len(data) else np.zeros(0, kind)
    fortran = order in ("F", b"F")
    return np.array(values.reshape(shape, order="F" if fortran else "C"), dtype=kind.newbyteorder("="))


def _scalar(dtype: Any, raw: Any) -> Any:
    return _from_bytes(raw, dtype, (), "C")[()]


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How protocols 0 to 2 write bytes."""
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise _NotPlain(f"text in encoding {encoding!r}")
    return text.encode("latin1")


def _bytes(*content: Any) -> bytes:
    """How protocols 0 to 2 write empty bytes (`bytes(n)` would make n of them)."""
    if content:
        raise _NotPlain("a call of bytes")
    return b""


class _Subtype:
    """Stands for numpy.ndarray itself, which is named but never called."""


_NAMES: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Subtype,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}
for _core in ("numpy.core", "numpy._core"):
    _NAMES[_core + ".multiarray", "_reconstruct"] = _Array
    _NAMES[_core + ".multiarray", "scalar"] = _scalar
    _NAMES[_core + ".numeric", "_frombuffer"] = _from_bytes
for _builtins in ("builtins", "__builtin__"):
    _NAMES[_builtins, "set"] = set
    _NAMES[_builtins, "frozenset"] = frozenset
    _NAMES[_builtins, "bytes"] = _bytes


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _NAMES.get((module, name))
        if found is None:
            raise _NotPlain(f"the name {module}.{name}")
        return found


def _resolve(value: Any, seen: dict[int, Any], depth: int = 0) -> Any:
    """Replace the stand-ins inside plain containers by their arrays."""
    if depth > _MAX_DEPTH:
        raise _NotPlain(f"containers inside each other more than {_MAX_DEPTH} deep")
    if isinstance(value, (_DType, _Subtype)) or callable(value):
        raise _NotPlain("a bare name in place of a value")
    if isinstance(value, _Array):
        if value.value is None:
            raise _NotPlain("an array without content")
        return value.value
    if id(value) in seen:
        return seen[id(value)]
    result = value
    if isinstance(value, dict):
        result = {_resolve(key, seen, depth + 1): _resolve(item, seen, depth + 1) for key, item in value.items()}
    elif isinstance(value, (list, tuple, set, frozenset)):
        result = type(value)(_resolve(item, seen, depth + 1) for item in value)
    seen[id(value)] = result
    return result


def read_pickle(path: Path) -> Any:
    """Read a pickle of protocol 0 to 5, written with numpy 1 or 2, that holds numpy arrays and plain containers.

    Returns:
        None, bools, numbers, text, bytes, numpy arrays (real numbers, bools, text; native byte order), and dicts,
        lists, tuples and sets of them.

    Raises:
        DataError: the file cannot be read, is no complete pickle, or names anything else; it is never called.
    """
    try:
        with path.open("rb") as file:
            return _resolve(_Reader(file, encoding="latin1").load(), {})
    except _NotPlain as error:
        raise DataError(
            f"{path} is refused: it holds {error}; only numpy arrays in plain dicts, lists and tuples are read"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except _BROKEN as error:
        raise DataError(f"{path} is not a readable pickle: {type(error).__name__}: {error}") from error
