"""Checking a segment's offset and time index against the batches to which they point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from broker.log.tools.checks.findings import Finding, Level, Remedy
from kafkalog.storage.index_arrays import OFFSET_ROW, TIME_ROW

SHOWN = 3
"""The number of wrong entries of one file that are reported one by one."""


class _IndexCheck:
    """Compare the entries of an index file with batches in the order of the log."""

    entry: np.dtype[Any]
    what: str
    """Column of an entry that is not the relative offset."""

    def __init__(self, path: str, base: int, *, may_have_zeros: bool) -> None:
        self.path = path
        self.base = base
        self.missing = False
        self._notes: list[Finding] = []
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            self.missing = True
            data = b""
        size = self.entry.itemsize
        if len(data) % size:
            self._notes.append(
                Finding(path, f"{len(data)} bytes are not whole entries of {size}", Remedy.REBUILD_INDEX)
            )
        entries = np.frombuffer(data, self.entry, len(data) // size)
        used = np.flatnonzero((entries["relative"] != 0) | (entries[self.what] != 0))
        count = int(used[-1]) + 1 if len(used) else 0
        # While a segment is written, its indexes are preallocated; a single entry of zeros may be valid.
        if len(entries) - count > 1 and not may_have_zeros:
            text = f"{len(entries) - count} entries of zeros at the end of an index whose segment is complete"
            self._notes.append(Finding(path, text, Remedy.REBUILD_INDEX))
        self.rows = entries[:count]
        self.offsets = self.rows["relative"].astype(np.int64) + base
        self.values = self.rows[self.what].astype(np.int64)
        self._matched = np.zeros(count, bool)
        self._done = 0

    def _wrong(self, damages: Sequence[Any], what: str) -> Iterator[Finding]:
        # An entry that points into damage cannot be proved wrong.
        bad = [int(row) for row in np.flatnonzero(~self._matched) if not damages]
        for row in bad[:SHOWN]:
            yield Finding(
                self.path,
                what.format(self.offsets[row], self.values[row]),
                Remedy.REBUILD_INDEX,
                position=row * self.entry.itemsize,
                offset=int(self.offsets[row]),
            )
        if len(bad) > SHOWN:
            yield Finding(self.path, f"and {len(bad) - SHOWN} more entries that are wrong", Remedy.REBUILD_INDEX)

    def _absent(self, report: Any, what: str) -> Iterator[Finding]:
        if self.missing and report.batches:
            yield Finding(self.path, f"the {what} is missing", Remedy.REBUILD_INDEX, Level.NOTE)
        yield from self._notes


class OffsetIndexCheck(_IndexCheck):
    """Check that each entry is a batch's position and the last offset of it or of a later batch, and that both grow.

    A leader writes both of one batch. A follower of Apache Kafka appends all batches of a fetch at once: its entry is
    the position of the first one and the last offset of the last one.
    """

    entry = OFFSET_ROW
    what = "position"

    def __init__(self, path: str, base: int, *, may_have_zeros: bool) -> None:
        super().__init__(path, base, may_have_zeros=may_have_zeros)
        self._following = np.append(self.values[1:], np.iinfo(np.int64).max)
        self._begins = np.zeros(len(self.rows), bool)
        self._ends = np.zeros(len(self.rows), bool)

    @property
    def positions(self) -> list[int]:
        """Return the positions at which batches begin according to the index."""
        positions: list[int] = self.values[self.values > 0].tolist()
        return positions

    def take(self, positions: Any, last_offsets: Any) -> None:
        """Compare with the batches at these positions."""
        if not len(positions) or not len(self.rows):
            return
        at = np.searchsorted(positions, self.values)
        inside = at < len(positions)
        at[~inside] = 0
        self._begins |= inside & (positions[at] == self.values)
        at = np.searchsorted(last_offsets, self.offsets)
        inside = at < len(last_offsets)
        at[~inside] = 0
        end = positions[at]
        self._ends |= inside & (last_offsets[at] == self.offsets) & (end >= self.values) & (end < self._following)
        self._matched = self._begins & self._ends

    def findings(self, report: Any) -> Iterator[Finding]:
        """Yield the findings after all batches were read."""
        yield from self._absent(report, "offset index")
        backwards = np.flatnonzero((np.diff(self.offsets) <= 0) | (np.diff(self.values) <= 0)) + 1
        for row in backwards[:SHOWN].tolist():
            yield Finding(self.path, "the entry does not follow the one before", Remedy.REBUILD_INDEX, position=row * 8)
        yield from self._wrong(
            report.damages, "no batch at position {1} of the log, or from there to the next entry, ends with offset {0}"
        )


class TimeIndexCheck(_IndexCheck):
    """Check that each entry is the largest timestamp so far and an offset of its batch, and that both grow."""

    entry = TIME_ROW
    what = "timestamp"

    def __init__(self, path: str, base: int, *, may_have_zeros: bool) -> None:
        super().__init__(path, base, may_have_zeros=may_have_zeros)
        self._largest = np.int64(-1)

    def take(self, first_offsets: Any, last_offsets: Any, max_timestamps: Any) -> None:
        """Compare with these batches."""
        if not len(last_offsets):
            return
        largest = np.maximum(np.maximum.accumulate(max_timestamps), self._largest)
        self._largest = largest[-1]
        if not len(self.rows):
            return
        at = np.searchsorted(last_offsets, self.offsets)
        inside = at < len(last_offsets)
        at[~inside] = 0
        inside &= first_offsets[at] <= self.offsets
        self._matched |= inside & (max_timestamps[at] == self.values) & (largest[at] == self.values)

    def findings(self, report: Any) -> Iterator[Finding]:
        """Yield the findings after all batches were read."""
        yield from self._absent(report, "time index")
        backwards = np.flatnonzero((np.diff(self.values) <= 0) | (np.diff(self.offsets) < 0)) + 1
        for row in backwards[:SHOWN].tolist():
            yield Finding(
                self.path, "the entry does not follow the one before", Remedy.REBUILD_INDEX, position=row * 12
            )
        yield from self._wrong(report.damages, "{1} is not the largest timestamp of the log up to offset {0}")
