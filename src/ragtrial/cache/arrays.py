"""Arrays in separate files, written as a stream and read by mapping: neither holds the whole array in memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.cache.fingerprints import DIGEST_BYTES

MAPPED_ABOVE = 64 * 1024
"""Bytes. An array of no more is read."""


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write ``array`` as a .npy file. Raises OSError with its reason, which ``np.save`` leaves out on a full disk."""
    write_arrays(path, [array])


def write_arrays(path: Path, arrays: Iterable[npt.NDArray[Any]]) -> None:
    """Write ``arrays`` into one file, each as a .npy file has it, one after another."""
    with path.open("wb") as file:
        for array in arrays:
            _header(file, array.dtype, array.shape)
            file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def read_arrays(path: Path) -> Iterator[npt.NDArray[Any]]:
    """The arrays of a file of ``write_arrays``, read-only. Raises OSError, and ValueError where it ends too early."""
    with path.open("rb") as file:
        while file.peek(1):
            shape, dtype = _described(file)
            yield np.frombuffer(_exactly(file, _bytes_of(shape, dtype)), dtype).reshape(shape)


def write_rows(
    path: Path, blocks: Iterable[npt.NDArray[Any]], shape: tuple[int, int], dtype: npt.DTypeLike = np.float32
) -> None:
    """Write ``blocks`` of rows of type ``dtype``, one below another, as one .npy array of ``shape``.

    An ordinary write, not one through a mapped file: on a full disk that would end the process by a signal.
    """
    with path.open("wb") as file:
        _header(file, np.dtype(dtype), shape)
        for block in blocks:
            if block.size:
                file.write(np.ascontiguousarray(block).data.cast("B"))


def read_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, read-only; mapped if it is large. Raises OSError and ValueError if it is not such a
    file.

    A map keeps its file open, and a sweep over hundreds of chunkings has thousands of small arrays.
    """
    with path.open("rb") as file:
        shape, dtype = _described(file)
        offset, size = file.tell(), _bytes_of(shape, dtype)
        if not size:
            return np.empty(shape, dtype)
        if size <= MAPPED_ABOVE:
            return np.frombuffer(_exactly(file, size), dtype).reshape(shape)
    # A plain array on top of the map: the map's own class is slow to take single values from.
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


def _described(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array that comes next."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{Path(file.name).name} is of version {version}, not (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def _bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def _exactly(file: Any, size: int) -> bytes:
    read: bytes = file.read(size)
    if len(read) < size:
        raise ValueError(f"{Path(file.name).name} ends after {len(read):,} of {size:,} bytes")
    return read


def map_file(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """``count`` values that are all there is in a file, read-only; mapped if it is large."""
    if not count:
        return np.empty(0, dtype)
    if count * dtype.itemsize <= MAPPED_ABOVE:
        return np.frombuffer(path.read_bytes(), dtype, count)
    return np.memmap(path, dtype, "r").view(np.ndarray)


def is_within(numbers: npt.NDArray[Any], count: int, least: int = 0) -> bool:
    """True if all ``numbers`` are at least ``least`` and below ``count``, as positions must be."""
    return not numbers.size or (int(numbers.min()) >= least and int(numbers.max()) < count)


def are_offsets(offsets: npt.NDArray[Any], count: int, end: int) -> bool:
    """True if ``offsets``, shape (count + 1,), divide ``end`` values among ``count`` consecutive rows."""
    fits = offsets.shape == (count + 1,) and int(offsets[0]) == 0 and int(offsets[-1]) == end
    return fits and bool((np.diff(offsets) >= 0).all())


def array_digest(array: npt.NDArray[Any]) -> str:
    """The hash of the values of ``array``, in hex digits; not of its shape and type."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=DIGEST_BYTES).hexdigest()


def _header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
