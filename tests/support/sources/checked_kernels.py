"""Use the checked kernels instead of the compiled ones, so that hostile bytes cannot reach foreign memory unnoticed.

`checked_kernels` replaces the kernels in their modules, and registers the memory that Arrow columns pass by address.
The replacement is in effect for the whole process until the context ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from kafkalog.records import checking, cleaning
from kafkalog.records.arrow import columns, decode, encode, scratch
from kafkalog.records.cleaning import loops
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import hash_layout
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.kernels.checked import build, memory
from kafkalog.records.kernels.checked.memory import Range
from kafkalog.records.kernels.compiled import (
    batch_filtering,
    key_indexing,
    log_checking,
    reading,
    rows,
    text,
    unpacking,
    upgrading,
    writing,
)
from kafkalog.records.kernels.store.groups import GROUPS
from kafkalog.records.legacy import upgrade

MODULES = (reading, writing, unpacking, text, rows, log_checking, key_indexing, batch_filtering, upgrading)


@contextmanager
def checked_kernels() -> Iterator[None]:
    """Use the checked kernels within the block."""
    kernels: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "_loaded", frozenset(GROUPS))
        for module in MODULES:
            found = build.kernels(module.__name__.rpartition(".")[2])
            kernels |= found
            for name, kernel in found.items():
                patch.setattr(module, name, kernel)
        patch.setattr(rows, "hash_keys", partial(_hash_keys, build.checked("rows").hash_keys))
        patch.setattr(
            text, "first_not_enclosed", partial(_first_not_enclosed, build.checked("text").first_not_enclosed)
        )
        (validate,) = build.checked("reading").validate_records.overloads.values()
        patch.setattr(loader, "validate_records", partial(memory.call, validate.entry_point))
        patch.setattr(checking, "_fast", (kernels["scan_batches"], kernels["check_batches"], kernels["check_records"]))
        patch.setattr(upgrade, "_fast", kernels["upgrade_messages"])
        patch.setattr(loops, "_functions", cleaning_functions())
        _lend_what_arrow_names(patch)
        try:
            yield
        finally:
            memory.take_back()


def cleaning_functions() -> cleaning.Functions:
    """Return the checked kernels of log cleaning."""
    kernels = build.kernels("key_indexing") | build.kernels("batch_filtering")
    return cleaning.Functions(**{name: kernels[name] for name in cleaning.Functions._fields[:-1]}, compiled=True)


def _lend_what_arrow_names(patch: pytest.MonkeyPatch) -> None:
    """Register each memory whose address is passed to a kernel, when its owner allocates it."""

    def wrap(owner: type, name: str, lend: Callable[[Any], None], first: bool = False) -> None:
        original = getattr(owner, name)

        def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
            if first:
                memory.take_back()
            original(self, *args, **kwargs)
            lend(self)

        patch.setattr(owner, name, wrapped)

    wrap(decode._Decode, "__init__", _lend_fetched, first=True)
    wrap(scratch.Scratch, "_take_memory", _lend_scratch)
    wrap(columns.Columns, "reserve", _lend_columns)
    wrap(encode._Inputs, "__init__", _lend_inputs, first=True)


def _lend_fetched(decoding: Any) -> None:
    memory.lend("fetched", Range(decoding._address, len(decoding._view)))


def _lend_scratch(taken: Any) -> None:
    array = taken._memory
    memory.lend(("scratch", array.ctypes.data), Range(array.ctypes.data, array.nbytes, writable=True))


def _lend_columns(growing: Any) -> None:
    for slot, buffer in growing._buffers.items():
        memory.lend(("column", slot), Range(buffer.address, buffer.size, writable=True))


def _lend_inputs(inputs: Any) -> None:
    for number, kept in enumerate(inputs._kept):
        if isinstance(kept, np.ndarray):
            memory.lend(("input", number, 0), Range(kept.ctypes.data, kept.nbytes))
        else:
            for at, buffer in enumerate(kept.buffers()):
                if buffer is not None:
                    memory.lend(("input", number, at), Range(buffer.address, buffer.size))


def _binary(offsets: int, data: int, valid: int, count: int) -> tuple[Range, ...]:
    """Return the memory of `count` binary elements in Arrow's layout."""
    end = ctypes.c_int32.from_address(offsets + 4 * count).value if offsets else 0
    return Range(offsets, 4 * (count + 1)), Range(data, end), Range(valid, (count + 7) // 8 if valid else 0)


def _hash_keys(kernel: Any, words: Any, out: Any) -> Any:
    offsets, data, valid, skip = (int(word) for word in words[: hash_layout.KEY_WORDS])
    return memory.call(kernel, words, out, also=_binary(offsets, data, valid, skip + len(out)))


def _first_not_enclosed(kernel: Any, offsets: int, data: int, skip: int, count: int) -> Any:
    return memory.call(kernel, offsets, data, skip, count, also=_binary(offsets, data, 0, skip + count))


def room_of(words: Any) -> Range:
    """Return the memory that the arguments of `unpack_batches` name."""
    return Range(int(words[t.ROOM]), int(words[t.ROOM_SIZE]), writable=True)
