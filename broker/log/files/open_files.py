"""The budget of files and maps that the logs of a broker keep open, and the choice of which to close beyond it.

Segments and index maps are opened on first use and stay open, because the next reader will need them, too. With
thousands of partitions that would end with EMFILE, and a log directory that cannot open a file goes offline. So each
holder of a file is admitted here. Beyond the budget, the holders that have been unused for longest close their files;
they open them again when they need them. A map counts as a descriptor: before 3.13 Python keeps one for it, and the
system bounds maps, too.

Each broker has one budget (`resources`). Any thread may admit: every step is one atomic operation of a dictionary, and
a lost race costs a descriptor too many or too few for a moment.

A descriptor that is closed here may be in use elsewhere. So hold the `SegmentFile` while you use `segment.file.fd`.
"""

from __future__ import annotations

import resource
import weakref
from collections import OrderedDict
from typing import Protocol

DEFAULT_SHARE = 0.4
"""Share of the process's limit of open files. Connections, checkpoints and everything else have the rest."""
MAX_DEFAULT = 30_000
"""Largest default. Linux allows a process 65,530 maps by default (vm.max_map_count)."""
ROOM = 8
"""The number of holders that close their files when an open fails because there is no descriptor left."""
SECOND_CHANCES = 8
"""The number of holders in use that are passed over in one search for a file to close."""


class FileHolder(Protocol):
    """Keep a descriptor or a map open."""

    used: bool
    """Set at each use, and cleared when the holder is passed over."""

    def close_idle(self) -> None:
        """Close the descriptor or the map; the next use opens it again."""


class _Entry(weakref.ref[FileHolder]):
    __slots__ = ("key",)

    key: int


class OpenFiles:
    """Keep the holders in order, the longest unused one first.

    The order is that of the second-chance algorithm: a holder that was used since the last search is passed over.

    Attributes:
        limit: how many holders may be open; by default a share of the process's limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = default_limit() if limit is None else limit
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._segment_files: set[int] = set()

    def __len__(self) -> int:
        """Return the number of holders that may have a file open."""
        return len(self._entries)

    def admit(self, holder: FileHolder) -> None:
        """Admit `holder`, which has opened a descriptor; beyond the limit another holder closes one."""
        holder.used = True
        entries = self._entries
        entry = _Entry(holder, self._gone)
        entry.key = id(holder)
        entries[entry.key] = entry
        if len(entries) > self.limit:
            self._make_room()

    def _gone(self, entry: weakref.ref[FileHolder]) -> None:
        assert isinstance(entry, _Entry)
        if self._entries.get(entry.key) is entry:
            self._entries.pop(entry.key, None)

    def _make_room(self) -> None:
        entries = self._entries
        chances = SECOND_CHANCES
        while len(entries) > self.limit:
            try:
                key, entry = entries.popitem(last=False)
            except KeyError:
                return
            holder = entry()
            if holder is None:
                continue
            if holder.used and chances:
                chances -= 1
                holder.used = False
                entries[key] = entry
            else:
                holder.close_idle()

    def make_room(self) -> bool:
        """Let some holders close, used or not, because the process has no descriptor left; return whether any did."""
        closed = False
        for _ in range(ROOM):
            try:
                _, entry = self._entries.popitem(last=False)
            except KeyError:
                break
            holder = entry()
            if holder is not None:
                holder.close_idle()
                closed = True
        return closed

    # -- segment files, including those that only responses in flight hold

    def opened(self, fd: int) -> None:
        """Count a segment's file that was opened."""
        self._segment_files.add(fd)

    def closed(self, fd: int) -> None:
        """Stop counting a segment's file, which is about to be closed."""
        self._segment_files.discard(fd)

    @property
    def crowded(self) -> bool:
        """Return whether responses in flight hold so many files that further reads should wait."""
        return len(self._segment_files) > self.limit + self.limit // 4


def default_limit() -> int:
    """Return the log's share of the limit of open files that is in force now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_DEFAULT if soft == resource.RLIM_INFINITY else max(16, min(int(soft * DEFAULT_SHARE), MAX_DEFAULT))
