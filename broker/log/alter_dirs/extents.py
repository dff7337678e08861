"""The files of a log as they are at one moment: which bytes of them count, and whether those have changed since."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from broker.log.alter_dirs.plan import Extent
from broker.log.index.index_file import IndexFile
from broker.log.segment.segment import Segment
from kafkalog.storage import names


def log_files(segments: Sequence[Segment], snapshots: Iterable[int], truncations: int) -> dict[str, Extent]:
    """Return the files that make a log, by name; of each segment the `.log` file last.

    Args:
        segments: all segments of the log.
        snapshots: the offsets of its producer snapshots.
        truncations: changes with each truncation, after which the same length may stand for other bytes.
    """
    found = dict(extent for segment in segments for extent in _segment_files(segment))
    for offset in snapshots:
        found[names.segment_name(offset, names.SNAPSHOT)] = Extent(None, ())
    return {name: extent._replace(stamp=(extent.stamp, truncations)) for name, extent in found.items()}


def _segment_files(segment: Segment) -> list[tuple[str, Extent]]:
    indexes, config, writable = segment.indexes, segment.config, segment.writable
    aborted = Extent(None, (segment, segment.aborted.changes))
    if writable and os.path.exists(path := segment.path(names.TXN_INDEX)):
        aborted = Extent(os.stat(path).st_size, segment)
    found = [
        (names.INDEX, _index_extent(segment, indexes.offset)),
        (names.TIME_INDEX, _index_extent(segment, indexes.time)),
        (names.TXN_INDEX, aborted),
        (names.LOG, Extent(segment.size, segment, config.segment_bytes if writable and config.preallocate else 0)),
    ]
    return [(names.segment_name(segment.base_offset, kind), extent) for kind, extent in found]


def _index_extent(segment: Segment, index: IndexFile | None) -> Extent:
    stamp = (segment, segment.indexes.builds)
    if index is None:
        return Extent(None, stamp)
    return Extent(index.written, stamp, index.max_entries * index.ENTRY_SIZE if segment.writable else 0)
