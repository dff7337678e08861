"""The loops of log cleaning, compiled or in plain Python."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np

from kafkalog.records.kernels import loader
from kafkalog.records.kernels.plain import log_cleaning as plain

logger = logging.getLogger(__name__)


class Functions(NamedTuple):
    """The loops, compiled or not, with the arguments of the kernels."""

    index_records: Any
    index_batches: Any
    filter_batches: Any
    filter_section: Any
    write_section: Any
    compiled: bool


PLAIN = Functions(
    plain.index_records,
    plain.index_batches,
    plain.filter_batches,
    plain.filter_section,
    plain.write_section,
    False,
)
_functions: Functions | None = None


def loaded() -> bool:
    """Return whether `load` has been called."""
    return _functions is not None


def load() -> Functions:
    """Return the compiled loops, or the plain ones where compiling fails, which is logged. Any thread may call."""
    global _functions
    if _functions is None:
        try:
            loader.load("cleaning")
            from kafkalog.records.kernels.compiled import batch_filtering, key_indexing

            _functions = Functions(
                key_indexing.index_records,
                key_indexing.index_batches,
                batch_filtering.filter_batches,
                batch_filtering.filter_section,
                batch_filtering.write_section,
                True,
            )
        except Exception:
            logger.warning(
                "the kernels of log cleaning could not be compiled; plain Python serves, slowly", exc_info=True
            )
            _functions = PLAIN
    return _functions


def readable(data: Any, functions: Functions) -> Any:
    """Return a read-only array of the bytes, as the functions take them: none is compiled for writable arrays."""
    view = memoryview(data).toreadonly()
    return np.frombuffer(view, np.uint8) if functions.compiled else view


def writable(data: bytearray, functions: Functions) -> Any:
    return np.frombuffer(data, np.uint8) if functions.compiled else memoryview(data)
