"""Translate offsets of the source into offsets of the target, and back.

Offsets of the two sides drift apart: the target has markers of the mirror's transactions, and lacks what the source has
of aborted transactions, markers and compacted records. Within a *run*, both count alike. A run is as long as the mirror
has seen it; a pair of offsets that an earlier process has stored (an offset sync) is a run of one record.

    source   0 1 2 3 · · 6 7          runs: 0→0 of 4 records, 6→5 of 2
    target   0 1 2 3 m 5 6

A position within a run is translated exactly. One beyond it becomes the offset after the run: every record that the
group has not read is there or later, so it loses nothing, and may read again what follows the run in the source. That
is the rule of MirrorMaker 2 (`OffsetSyncStore.translateDownstream`), whose runs all have one record. The way back has
the same rule: beyond a run of the target is the offset after the run in the source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from kafkalog.mirror.internal_topics.runs import Run

MOST_RUNS = 8192
"""The most runs kept of a partition. Beyond that, the older half is thinned: positions there become less exact."""
_EXACTNESS = 1024
"""In the older half, the highest ratio of a run's distance from the end to that from its neighbour.

It is halved until there is room."""


class OffsetMap:
    """The runs of one partition, in order."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._starts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def runs(self) -> Sequence[Run]:
        """The runs, which must not be changed."""
        return self._runs

    @property
    def last(self) -> tuple[int, int] | None:
        """The last record's offsets in the source and in the target."""
        if not self._runs:
            return None
        up, down = self._runs[-1].ends
        return up - 1, down - 1

    def precedes(self, run: Run) -> bool:
        """Tell whether a run is after all others on both sides."""
        if not self._runs:
            return True
        up, down = self._runs[-1].ends
        return run.upstream >= up and run.downstream >= down

    def add(self, run: Run) -> None:
        """Add records that were mirrored after all others.

        Where one side has gone back, as a topic does that was deleted and created again, the others are forgotten.
        """
        if not self.precedes(run):
            self._starts.clear()
            self._runs.clear()
        elif self._runs:
            before = self._runs[-1]
            if run[:2] == before.ends:
                self._runs[-1] = before._replace(length=before.length + run.length)
                return
        self._starts.append(run.upstream)
        self._runs.append(run)
        if len(self._runs) > self._most:
            half = max(2, self._most // 2)
            self._runs = self._thinned(half) + self._runs[half:]
            self._starts = [each.upstream for each in self._runs]

    def _thinned(self, count: int) -> list[Run]:
        """Return at most half of the first `count` runs: the closer, the nearer they are to the end.

        So a group that is a million records behind is translated a thousand times less exactly than one that is a
        thousand behind, however many runs there have been.
        """
        end = self._runs[-1].upstream
        exactness = _EXACTNESS
        while True:
            kept = [self._runs[0]]
            for run in self._runs[1:count]:
                if (run.upstream - kept[-1].upstream) * exactness >= end - run.upstream:
                    kept.append(run)
            if len(kept) <= (count + 1) // 2:
                return kept
            exactness //= 2

    def translate(self, offset: int) -> int | None:
        """Return the offset of the target for a position in the source; None where it is before all runs."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return None
        run = self._runs[at]
        return run.downstream + min(offset - run.upstream, run.length)

    def translate_back(self, offset: int) -> int | None:
        """Return the offset of the source for a position in the target; None where it is before all runs.

        What a reader of the target has not read at `offset` is at the returned offset of the source or behind it.
        """
        at = bisect_right(self._runs, offset, key=attrgetter("downstream")) - 1
        if at < 0:
            return None
        run = self._runs[at]
        return run.upstream + min(offset - run.downstream, run.length)


def continued(known: OffsetMap | None, stored: Sequence[Run]) -> OffsetMap:
    """Return the map of a partition that a process gets (again): `known`, with what was stored after its last run.

    `known` is what the process has noted when it had the partition before. It counts where its last record is the last
    one of a stored run: then the stored runs after that one are all that others have mirrored since. Otherwise the
    stored runs count alone.
    """
    found = OffsetMap()
    begin = 0
    if known is not None and known.runs:
        for number, run in enumerate(stored, 1):
            if run.ends == known.runs[-1].ends:
                found, begin = known, number
    for run in stored[begin:]:
        found.add(run)
    return found
