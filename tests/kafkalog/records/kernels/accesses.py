"""Programs that access memory by the checked intrinsics. They are compiled when this module is imported."""

from __future__ import annotations

from typing import Any

from kafkalog.records.kernels.checked import intrinsics

Word = intrinsics.types.int64
READ_ONLY = intrinsics.types.Array(intrinsics.types.uint8, 1, "C", readonly=True)
WRITABLE = intrinsics.types.Array(intrinsics.types.uint8, 1, "C")


@intrinsics.njit(**intrinsics.INNER)
def read(kind: Any, base: Any, at: Any) -> Any:
    """Read by the intrinsic of that number, so many bytes or elements after `base`."""
    if kind == 0:
        return intrinsics.byte(base, at)
    if kind == 1:
        return intrinsics.big_endian_64(base, at)
    if kind == 2:
        return intrinsics.little_endian_32(base, at)
    if kind == 3:
        return intrinsics.load_32(base, at)
    return intrinsics.load_64(base, at)


@intrinsics.njit(**intrinsics.INNER)
def write(kind: Any, base: Any, at: Any, source: Any) -> Any:
    """Write by the intrinsic of that number; the copies read from `source`."""
    if kind == 0:
        intrinsics.store_8(base, at, 1)
    elif kind == 1:
        intrinsics.store_32(base, at, 1)
    elif kind == 2:
        intrinsics.store_64(base, at, 1)
    elif kind == 3:
        intrinsics.copy_8(base, source, at)
    elif kind == 4:
        intrinsics.copy_16(base, source, at)
    elif kind == 5:
        intrinsics.copy_block(base, source, at)
    else:
        intrinsics.copy(base, source, at)


@intrinsics.njit((Word, READ_ONLY, Word), **intrinsics.INNER)
def read_array(kind: Any, data: Any, at: Any) -> Any:
    return read(kind, intrinsics.address(data), at)


@intrinsics.njit((Word, WRITABLE, Word, Word), **intrinsics.INNER)
def write_array(kind: Any, data: Any, at: Any, source: Any) -> Any:
    write(kind, intrinsics.address(data), at, source)


@intrinsics.njit((Word, READ_ONLY, Word), **intrinsics.INNER)
def write_read_only(kind: Any, data: Any, at: Any) -> Any:
    write(kind, intrinsics.address(data), at, intrinsics.address(data))


@intrinsics.njit((WRITABLE, Word), **intrinsics.INNER)
def element(data: Any, at: Any) -> Any:
    return data[at]
