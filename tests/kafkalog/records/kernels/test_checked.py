"""Test that the checked build refuses forbidden accesses: reads, writes and copies by address, and array elements."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.kernels.checked import build, intrinsics, memory
from kafkalog.records.kernels.checked.memory import OutOfBoundsError, Range
from kafkalog.records.kernels.compiled import intrinsics as unchecked
from kafkalog.records.kernels.compiled import reading

SIZE = 64

READ_LAST = [(0, SIZE - 1), (1, SIZE - 8), (2, SIZE - 4), (3, SIZE // 4 - 1), (4, SIZE // 8 - 1)]
WRITE_LAST = [
    (0, SIZE - 1), (1, SIZE // 4 - 1), (2, SIZE // 8 - 1), (3, SIZE - 8), (4, SIZE - 16), (5, SIZE - 32), (6, SIZE),
]  # fmt: skip


@pytest.fixture(scope="module")
def accesses() -> ModuleType:
    """The programs, which are compiled only in the worker that runs these tests."""
    return importlib.import_module("tests.kafkalog.records.kernels.accesses")


@pytest.fixture
def guarded() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An array amid a larger one: what is beside it is memory of the process, but was not given."""
    return np.zeros(3 * SIZE, np.uint8)[SIZE : 2 * SIZE]


@pytest.mark.parametrize(("kind", "last"), READ_LAST)
def test_reads_end_where_the_array_does(kind: int, last: int, guarded: Any, accesses: ModuleType) -> None:
    guarded.flags.writeable = False
    assert memory.call(accesses.read_array, kind, guarded, last) == 0
    assert memory.call(accesses.read_array, kind, guarded, 0) == 0
    # The last one is below address zero, wherever the array is.
    for at in (last + 1, -1, 1 << 40, -(1 << 40), -(1 << 56)):
        with pytest.raises(OutOfBoundsError, match=r"reads \d bytes at 0x"):
            memory.call(accesses.read_array, kind, guarded, at)


@pytest.mark.parametrize(("kind", "last"), WRITE_LAST)
def test_writes_end_where_the_array_does(kind: int, last: int, guarded: Any, accesses: ModuleType) -> None:
    source = np.ones(4 * SIZE, np.uint8)
    whole = guarded.base
    lent = (Range(source.ctypes.data, source.nbytes),)
    memory.call(accesses.write_array, kind, guarded, last, source.ctypes.data, also=lent)
    assert guarded.any()
    guarded[:] = 0
    for at in (last + 1, -1):
        with pytest.raises(OutOfBoundsError):
            memory.call(accesses.write_array, kind, guarded, at, source.ctypes.data, also=lent)
    assert not whole.any(), "a write that is refused writes nothing"


@pytest.mark.parametrize("kind", range(7))
def test_what_is_to_be_read_is_not_written_to(kind: int, guarded: Any, accesses: ModuleType) -> None:
    guarded.flags.writeable = False
    with pytest.raises(OutOfBoundsError, match="writes"):
        memory.call(accesses.write_read_only, kind, guarded, 1)


@pytest.mark.parametrize("kind", [3, 4, 5, 6])
def test_copies_read_what_was_given_only(kind: int, guarded: Any, accesses: ModuleType) -> None:
    source = np.ones(SIZE, np.uint8)
    with pytest.raises(OutOfBoundsError, match="reads"):
        memory.call(accesses.write_array, kind, guarded, 8, source.ctypes.data)
    assert not guarded.any()


def test_an_array_of_the_last_call_is_not_this_call_s(guarded: Any, accesses: ModuleType) -> None:
    memory.call(accesses.write_array, 0, guarded, 0, 0)
    with pytest.raises(OutOfBoundsError):
        memory.call(accesses.read, 0, guarded.ctypes.data, 0)


def test_elements_of_arrays_are_checked(guarded: Any, accesses: ModuleType) -> None:
    assert accesses.element(guarded, SIZE - 1) == 0
    with pytest.raises(IndexError):
        accesses.element(guarded, SIZE)


def test_every_intrinsic_is_checked() -> None:
    for name in unchecked.DEFINITIONS:
        assert (getattr(intrinsics, name) is getattr(unchecked, name)) == (name == "prefetch"), name


def test_a_kernel_that_is_told_a_wrong_end_is_stopped() -> None:
    batch = np.frombuffer(encode_batch([Record(0, 0, b"k", b"v" * 100)]), np.uint8)
    count_headers, totals = build.kernels("reading")["count_headers"], np.zeros(3, np.int64)
    table = np.zeros((1, t.WIDTH), np.int64)
    begin = batch.ctypes.data + HEADER_SIZE
    table[0, [t.START, t.END, t.COUNT]] = begin, batch.ctypes.data + len(batch), 1
    memory.lend("fetched", Range(batch.ctypes.data, len(batch)))
    try:
        assert count_headers(table, totals)[0] == 0
        memory.lend("fetched", Range(batch.ctypes.data, len(batch) - 1))
        with pytest.raises(OutOfBoundsError, match="reads 1 bytes"):
            count_headers(table, totals)
    finally:
        memory.take_back()


def test_the_ordinary_build_stays_as_it_is() -> None:
    ordinary, checked = reading, build.checked("reading")
    assert ordinary is not checked
    assert ordinary.__file__ == checked.__file__
    assert vars(ordinary)["byte"] is unchecked.byte
    assert vars(checked)["byte"] is intrinsics.byte
