"""Listing the files in a partition's directory, and removing what a crash has left over.

`.deleted` and `.cleaned` files are removed. `.swap` files are a finished compaction and replace the segments that
they cover, unless a `.cleaned` file shows that they were never all in place.
"""

from __future__ import annotations

import logging
import os

from broker.log.files.file_ops import FileOps
from broker.log.segment.batch_scan import headers
from kafkalog.storage import names

logger = logging.getLogger(__name__)

INDEX_FILES = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


def list_segments(directory: str, ops: FileOps) -> tuple[dict[int, int], list[int], set[int]]:
    """Return `{base offset: size}` of the `.log` files, the offsets of the snapshots and of the transaction indexes.

    Files that a crash has left over are removed or renamed first.

    Raises:
        OSError: the directory cannot be read, or a file cannot be removed or renamed.
    """
    bases: dict[int, int] = {}
    snapshots: list[int] = []
    indexes: list[tuple[int, str]] = []
    leftovers = False
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            offset = names.offset_of(name)
            if offset is None:
                continue
            if name.endswith(names.LOG):
                bases[offset] = entry.stat().st_size
            elif name.endswith(names.SNAPSHOT):
                snapshots.append(offset)
            elif name.endswith(INDEX_FILES):
                indexes.append((offset, entry.path))
            elif name.endswith((names.DELETED, names.CLEANED, names.SWAP)):
                leftovers = True
    if leftovers:
        _clear_leftovers(directory, ops)
        return list_segments(directory, ops)
    for offset, path in indexes:
        if offset not in bases:
            logger.warning("Removing the index file %s, whose log file is not there", path)
            ops.unlink(path)
    return bases, snapshots, {offset for offset, path in indexes if path.endswith(names.TXN_INDEX)}


def _clear_leftovers(directory: str, ops: FileOps) -> None:
    found = os.listdir(directory)
    cleaned = [name for name in found if name.endswith(names.CLEANED)]
    never_complete_from = min((names.offset_of(name) or 0 for name in cleaned), default=None)
    swaps = []
    for name in found:
        if not name.endswith(names.SWAP):
            continue
        if never_complete_from is not None and (names.offset_of(name) or 0) >= never_complete_from:
            ops.unlink(os.path.join(directory, name))
        else:
            swaps.append(name)
    # After the `.swap` files: if a crash comes in between, these files show again that the swap was incomplete.
    for name in found:
        if name.endswith((names.DELETED, names.CLEANED)):
            ops.unlink(os.path.join(directory, name))
    logs = sorted(name for name in swaps if name.endswith(names.LOG + names.SWAP))
    if logs:
        first = names.offset_of(logs[0]) or 0
        # The segment with the first one's name is removed even if compaction left nothing of it.
        end = max(first + 1, *(_end_of_file(os.path.join(directory, name)) for name in logs))
        for name in found:
            offset = names.offset_of(name)
            if offset is not None and name.endswith(names.SEGMENT_FILES) and first <= offset < end:
                logger.info("Removing %s, which a compaction has replaced", name)
                ops.unlink(os.path.join(directory, name))
    # Logs first: an index that is in place while its log is not would be removed as one that compaction has replaced.
    for name in sorted(swaps, key=lambda name: not name.endswith(names.LOG + names.SWAP)):
        path = os.path.join(directory, name)
        ops.rename(path, path.removesuffix(names.SWAP))
    ops.fsync_dir(directory)


def _end_of_file(path: str) -> int:
    """Return the offset after the last whole batch of a `.log` file; its base offset if it has none."""
    end = names.offset_of(os.path.basename(path)) or 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, header in headers(fd, 0, os.fstat(fd).st_size):
            end = header.next_offset
    finally:
        os.close(fd)
    return end
