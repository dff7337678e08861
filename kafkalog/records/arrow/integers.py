"""Arrow columns of integers to numpy arrays and back, over the same memory.

pyarrow's own conversions (`pa.array`, `pa.scalar`, `Array.to_numpy`) import pandas where it is installed. That takes
0.3 s of processor time in each new process, and each planner and worker of Spark is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def to_numpy(column: pa.Array, null: int | None = None) -> npt.NDArray[Any]:
    """Return the values of signed integers, of the same width; the array cannot be written to.

    `null` stands for nulls.

    Raises:
        ValueError: The column has other values, or it has nulls and `null` is None.
    """
    if not pa.types.is_signed_integer(column.type) or (column.null_count and null is None):
        raise ValueError(f"a column of integers without nulls is needed, not {column.type}, {column.null_count} nulls")
    kind = np.dtype(f"i{column.type.bit_width // 8}")
    valid, data = column.buffers()
    if data is None or not len(column):
        return np.full(len(column), null or 0, kind)
    values = np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)
    if not column.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=column.offset + len(column), bitorder="little")
    return np.where(bits[column.offset :], values, kind.type(null or 0))


def to_arrow(values: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> pa.Array:
    """Return a column over the memory of `values`, which must not change any more."""
    kind = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}[values.dtype]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)
