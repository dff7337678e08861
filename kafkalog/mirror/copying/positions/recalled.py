"""Make the map of offsets that earlier processes of the mirror have stored. Pure.

Each offset sync has the runs of its transaction; some have the runs before that, too (`internal_topics.runs`). Of the
latter, a partition's newest ones are enough, since they were made of all that was known. They fill the places
from which compaction has taken syncs, and are less exact the older they are. What the other syncs say goes before them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from heapq import merge

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.positions.translation import OffsetMap
from kafkalog.mirror.internal_topics.formats import FormatError, OffsetSync
from kafkalog.mirror.internal_topics.runs import BEFORE, Headers, Run, own_runs, runs_before

logger = logging.getLogger(__name__)


def recalled(syncs: Iterable[tuple[OffsetSync, Headers]]) -> dict[TopicPartition, OffsetMap]:
    """Return the map of each partition of the source, from the syncs in the order in which they were stored."""
    maps: dict[TopicPartition, OffsetMap] = {}
    newest: dict[TopicPartition, tuple[OffsetSync, Headers]] = {}
    for sync, headers in syncs:
        known = maps.setdefault(sync.partition, OffsetMap())
        try:
            found = own_runs(sync, headers)
        except FormatError as error:
            logger.warning("an offset sync of %s: %s", sync.partition, error)
            found = (Run(sync.upstream, sync.downstream, 1),)
        if found and not known.precedes(found[0]):
            newest.pop(sync.partition, None)
        for run in found:
            known.add(run)
        if any(name == BEFORE for name, _ in headers):
            newest[sync.partition] = sync, headers
    for tp, (sync, headers) in newest.items():
        try:
            before = runs_before(sync, headers)
        except FormatError as error:
            logger.warning("an offset sync of %s: %s", tp, error)
            continue
        if before:
            maps[tp] = _filled(maps[tp], before)
    return maps


def _filled(known: OffsetMap, before: Sequence[Run]) -> OffsetMap:
    """Add runs to a map that have their places before or between its own."""
    runs: list[Run] = []
    for run in merge(before, known.runs):
        if not runs or _is_after(runs[-1], run):
            runs.append(run)
        elif (more := _joined(runs[-1], run)) is not None:
            runs[-1] = more
        else:
            # One side was deleted and created again between them: the stored ones are of the same time, at least.
            runs = [*before, *(each for each in known.runs if _is_after(before[-1], each))]
            break
    filled = OffsetMap()
    for run in runs:
        filled.add(run)
    return filled


def _is_after(run: Run, later: Run) -> bool:
    up, down = run.ends
    return later.upstream >= up and later.downstream >= down


def _joined(run: Run, other: Run) -> Run | None:
    """Return both as one, where they overlap and say the same; else None."""
    if other.downstream - run.downstream != other.upstream - run.upstream:
        return None
    return run._replace(length=max(run.ends[0], other.ends[0]) - run.upstream)
