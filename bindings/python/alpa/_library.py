"""libalpa_c.so (bindings/c/alpa_c.h) by ctypes, which lets other threads run during a call. Arrays are passed by pointer."""
import ctypes
import json
import os
import pathlib
import weakref
from typing import Any

import numpy as np


class AlpaError(RuntimeError):
    """What was wrong, where, and how to mend it."""


class Tensor(ctypes.Structure):
    """alpa_tensor"""
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


_POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_FUNCTIONS = {  # name: (result, arguments)
    "alpa_last_error": (_TEXT, []),
    "alpa_version": (_TEXT, []),
    "alpa_free_text": (None, [_POINTER]),
    "alpa_import": (_POINTER, [_TEXT, _SIZE]),
    "alpa_function_json": (_POINTER, [_POINTER]),
    "alpa_function_free": (None, [_POINTER]),
    "alpa_plan_new": (_POINTER, [_POINTER, _TEXT]),
    "alpa_plan_json": (_POINTER, [_POINTER]),
    "alpa_plan_text": (_POINTER, [_POINTER]),
    "alpa_plan_report": (ctypes.c_int, [_POINTER, _TEXT]),
    "alpa_plan_free": (None, [_POINTER]),
    "alpa_run_new": (_POINTER, [_POINTER, _TEXT, ctypes.c_uint64]),
    "alpa_run_plan": (_POINTER, [_POINTER]),
    "alpa_run_set": (ctypes.c_int, [_POINTER, ctypes.POINTER(Tensor)]),
    "alpa_run_get": (_POINTER, [_POINTER, _TEXT]),
    "alpa_run_step": (ctypes.c_int, [_POINTER, ctypes.POINTER(Tensor), _SIZE]),
    "alpa_run_results": (_POINTER, [_POINTER]),
    "alpa_run_output": (_POINTER, [_POINTER, _TEXT]),
    "alpa_run_free": (None, [_POINTER]),
    "alpa_array_tensor": (Tensor, [_POINTER]),
    "alpa_array_free": (None, [_POINTER]),
}


def _loaded() -> ctypes.CDLL:
    path = os.environ.get("ALPA_LIBRARY") or pathlib.Path(__file__).with_name("libalpa_c.so")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"alpa: {error}; install the wheel that scripts/wheel builds, or name a libalpa_c.so by "
                          "ALPA_LIBRARY") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _loaded()


def version() -> str:
    """"major.minor.patch" of the library."""
    return library.alpa_version().decode()


def _failed() -> AlpaError:
    return AlpaError(library.alpa_last_error().decode(errors="replace"))


class Handle:
    """Owns what the function of this name makes; freed by `free`."""

    def __init__(self, free: str, name: str, *arguments: Any):
        self.pointer = getattr(library, name)(*arguments)
        if not self.pointer:
            raise _failed()
        self._free = weakref.finalize(self, getattr(library, free), self.pointer)


def text(name: str, *arguments: Any) -> str:
    """The text that a function returns."""
    pointer = getattr(library, name)(*arguments)
    if not pointer:
        raise _failed()
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        library.alpa_free_text(pointer)


def parsed(name: str, *arguments: Any) -> Any:
    """The JSON that a function returns."""
    return json.loads(text(name, *arguments))


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status."""
    if getattr(library, name)(*arguments):
        raise _failed()


def dtype_of(name: str) -> np.dtype:
    """NumPy's dtype of "f32", …; bf16 is that of ml_dtypes, which jax brings."""
    if name == "bf16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise AlpaError("NumPy has no bf16 by itself; install ml_dtypes") from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f64": "f8", "f32": "f4", "f16": "f2", "i32": "i4", "u8": "u1"}[name])


def given(value: Any, name: str, dtype: str) -> np.ndarray:
    """An array of alpa's element type on the memory of `value`: what NumPy reads, or what has DLPack. It is a copy if `value`
    is not dense, or of another type that converts."""
    array = np.from_dlpack(value) if hasattr(value, "__dlpack__") and not hasattr(value, "__array__") else np.asarray(value)
    wanted = dtype_of(dtype)
    if array.dtype == np.bool_ and dtype == "u8":
        array = np.ascontiguousarray(array).view(np.uint8)
    elif array.dtype == np.uint32 and dtype == "i32":
        array = np.ascontiguousarray(array).view(np.int32)
    if not np.can_cast(array.dtype, wanted, "same_kind"):
        raise AlpaError(f"{name} is {array.dtype}; it must be {wanted}")
    # Not ascontiguousarray, which makes a list of a number.
    return np.asarray(array, dtype=wanted, order="C")


def tensor(array: np.ndarray, name: str, dtype: str) -> Tensor:
    """A tensor on an array, which must outlive it."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(name.encode(), dtype.encode(), array.ndim, shape, array.ctypes.data)


def taken(name: str, *arguments: Any) -> np.ndarray:
    """The array that a function returns, on alpa's memory, which it owns."""
    handle = Handle("alpa_array_free", name, *arguments)
    made = library.alpa_array_tensor(handle.pointer)
    shape = tuple(made.shape[i] for i in range(made.rank))
    dtype = dtype_of(made.dtype.decode())
    memory = (ctypes.c_uint8 * (int(np.prod(shape)) * dtype.itemsize)).from_address(made.data or 0)
    memory.owner = handle
    return np.ndarray(shape, dtype, memory)
