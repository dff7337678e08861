"""How many descriptors the log keeps open: a budget, and who has to close when it is spent.

Segments and index maps are opened on first use and stay open, for the next reader will want them too. With thousands
of partitions that would end with EMFILE, and a log directory that cannot open a file fails. So whoever opens is
admitted here, and beyond the budget the ones that have not been used for longest close theirs; they open them again
when they are wanted. A map counts as a descriptor: Python keeps one for it before 3.13, and the system bounds maps,
too.

One budget a broker (`resources`). Any thread may admit: every step is one atomic operation of a dictionary, and losing
a race costs a descriptor too many or too few for a moment.

A descriptor that is closed here may be in use elsewhere: who uses ``segment.file.fd`` holds the ``SegmentFile``
meanwhile.
"""

from __future__ import annotations

import resource
import weakref
from collections import OrderedDict
from typing import Protocol

DEFAULT_SHARE = 0.4
"""Of the process's limit of open files; connections, checkpoints and everything else have the rest."""
MAX_DEFAULT = 30_000
"""Linux allows a process 65,530 maps unless told otherwise (vm.max_map_count)."""
ROOM = 8
"""Holders that close when an open fails for want of descriptors."""
SECOND_CHANCES = 8
"""Holders in use that are passed over in one search for something to close."""


class Holder(Protocol):
    """What keeps a descriptor or a map open.

    Attributes:
        used: set at each use, cleared when it is passed over.
    """

    used: bool

    def close_idle(self) -> None:
        """Let go of it; the next use opens it again."""


class _Entry(weakref.ref[Holder]):
    __slots__ = ("key",)

    key: int


class OpenFiles:
    """The holders, longest unused first (second chance: one that was used since it was last looked at is passed over).

    Attributes:
        limit: holders that may be open; by default a share of the process's limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = default_limit() if limit is None else limit
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._segment_files: set[int] = set()

    def __len__(self) -> int:
        """Holders that may be open."""
        return len(self._entries)

    def admit(self, holder: Holder) -> None:
        """``holder`` has opened a descriptor; beyond the limit another closes one."""
        holder.used = True
        entries = self._entries
        entry = _Entry(holder, self._gone)
        entry.key = id(holder)
        entries[entry.key] = entry
        if len(entries) > self.limit:
            self._make_room()

    def _gone(self, entry: weakref.ref[Holder]) -> None:
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
        """Have some holders close, used or not, for the process has no descriptor left; whether there were any."""
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

    # -- segment files, those included that only responses on their way hold

    def opened(self, fd: int) -> None:
        """A segment's file was opened."""
        self._segment_files.add(fd)

    def closed(self, fd: int) -> None:
        """It is about to be closed."""
        self._segment_files.discard(fd)

    @property
    def crowded(self) -> bool:
        """Whether responses on their way hold so many files that reading more should wait."""
        return len(self._segment_files) > self.limit + self.limit // 4


def default_limit() -> int:
    """A share of the limit of open files that is in force now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_DEFAULT if soft == resource.RLIM_INFINITY else max(16, min(int(soft * DEFAULT_SHARE), MAX_DEFAULT))
