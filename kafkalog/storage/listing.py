"""Finds the segments in a partition's directory.

Compaction writes the files of a new segment with the ending `.cleaned`, renames them to `.swap` when they are
complete and synced, and then to their own names, in place of the compacted segments, which get the ending `.deleted`
(Apache Kafka 3.9, `UnifiedLog.replaceSegments` and `LogLoader`). A crash leaves:

- `.cleaned` files: the new segments are incomplete. They do not count, and neither do `.swap` files at or after the
  first of them, which belong to an unfinished split.
- `.swap` files: the new segments are complete. They replace the segments whose offsets they cover.
- `.deleted` files: no longer needed.

At startup, a broker moves and removes these files. A reader that must not change the directory sees it as the broker
would leave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog.storage import names


class SegmentName(NamedTuple):
    """A segment, by its base offset; `suffix` is ".swap" if compaction's last rename has not happened yet."""

    base: int
    suffix: str

    def file(self, kind: str) -> str:
        """Return the name of the segment's file of this kind."""
        return names.segment_name(self.base, kind) + self.suffix


class Listing(NamedTuple):
    """The segments in a directory, in order."""

    segments: tuple[SegmentName, ...]
    swaps: tuple[SegmentName, ...]
    """Compacted segments that a crash left as `.swap` files; a broker completes their renames at startup."""
    in_motion: bool
    """True if there are files that compaction or retention is about to rename or remove."""


def listing(file_names: Iterable[str]) -> Listing:
    """Find the segments among a directory's file names. The module says which files do not count."""
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
    """Return the segments after `swaps` have been moved into place.

    They replace the segments that begin in [first swap, `end`). `end` is the offset after the swaps' last record.
    """
    moved = tuple(swaps)
    bases = {each.base for each in moved}
    kept = [each for each in segments if not moved[0].base <= each.base < end and each.base not in bases]
    return tuple(sorted([*kept, *moved]))


def snapshots(file_names: Iterable[str]) -> list[int]:
    """Return the offsets of the producer snapshots among file names, newest first."""
    found = filter(None, map(names.parse_segment_name, file_names))
    return sorted((file.base_offset for file in found if file.kind == names.SNAPSHOT and not file.ending), reverse=True)
