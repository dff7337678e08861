"""Which segments the files of a partition's directory make up.

Compaction writes the files of a new segment with the ending ``.cleaned``, renames them to ``.swap`` once they are whole
and on the device, and then to their own names, in place of the segments that it has compacted; those get the ending
``.deleted`` (Apache Kafka 3.9, ``UnifiedLog.replaceSegments`` and ``LogLoader``). A crash leaves:

- ``.cleaned`` files: the new segments are not whole. They do not count, and neither do ``.swap`` files at or behind the
  first of them, which are parts of a split that was not finished.
- ``.swap`` files: the new segments are whole. They count in place of the segments whose offsets they cover.
- ``.deleted`` files: nothing reads them any more.

A broker moves and removes what a crash left behind when it starts. Whoever only reads, takes the directory for what the
broker would make of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog.storage import names


class SegmentName(NamedTuple):
    """A segment by its base offset; ``suffix`` is ".swap" where compaction's last rename is still to come."""

    base: int
    suffix: str

    def file(self, kind: str) -> str:
        """Name of the segment's file of this kind."""
        return names.segment_name(self.base, kind) + self.suffix


class Listing(NamedTuple):
    """The segments that a directory's files make up, in order."""

    segments: tuple[SegmentName, ...]
    swaps: tuple[SegmentName, ...]
    """Compacted segments that a crash kept from being moved into place; a broker completes the move when it starts."""
    in_motion: bool
    """Whether files lie there that compaction or retention is about to move or remove."""


def listing(file_names: Iterable[str]) -> Listing:
    """Sort a directory's file names. See the module for those that do not count."""
    logs: list[int] = []
    swaps: list[int] = []
    least_cleaned: int | None = None
    in_motion = False
    for name in file_names:
        file = names.parse_segment_name(name)
        if file is None:
            continue
        in_motion = in_motion or bool(file.ending)
        if file.ending == names.CLEANED:
            least_cleaned = file.base_offset if least_cleaned is None else min(least_cleaned, file.base_offset)
        elif file.kind == names.LOG and not file.ending:
            logs.append(file.base_offset)
        elif file.kind == names.LOG and file.ending == names.SWAP:
            swaps.append(file.base_offset)
    valid = [base for base in swaps if least_cleaned is None or base < least_cleaned]
    return Listing(
        tuple(SegmentName(base, "") for base in sorted(logs)),
        tuple(SegmentName(base, names.SWAP) for base in sorted(valid)),
        in_motion,
    )


def swapped(segments: Iterable[SegmentName], swaps: Iterable[SegmentName], end: int) -> tuple[SegmentName, ...]:
    """The segments once ``swaps`` have taken their places.

    They replace those that begin within [first swap, ``end``). ``end`` is the offset behind the swaps' last record.
    """
    moved = tuple(swaps)
    bases = {each.base for each in moved}
    kept = [each for each in segments if not moved[0].base <= each.base < end and each.base not in bases]
    return tuple(sorted([*kept, *moved]))


def snapshots(file_names: Iterable[str]) -> list[int]:
    """Offsets of the producer snapshots among file names, the newest first."""
    found = filter(None, map(names.parse_segment_name, file_names))
    return sorted((file.base_offset for file in found if file.kind == names.SNAPSHOT and not file.ending), reverse=True)
