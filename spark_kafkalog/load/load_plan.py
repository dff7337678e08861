"""Plans a load: the ranges of offsets from the end of the last load on, and what is refused. Pure.

The caller requests offsets from brokers; this module takes maps from partition numbers of one topic to offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog.client.types import TopicPartition
from spark_kafkalog.load.layout.offsets_document import Lost, Offsets
from spark_kafkalog.offsets import OffsetRange
from spark_kafkalog.plan.splitting import split as split_ranges

By = Mapping[int, int]
"""Partition to offset."""


class PlanError(ValueError):
    """The load must not run; the message says what to do."""


class ChangingTopicError(PlanError):
    """The topic changed during the planning; the options are not wrong."""


class RecreatedTopicError(PlanError):
    """The topic was deleted and created again since it was loaded."""


class LostOffsetsError(PlanError):
    """Offsets that should have been loaded are gone."""


@dataclass(frozen=True)
class Seen:
    """A topic as brokers report it: its id ("" if they have none), and where its partitions begin and end.

    `high_watermarks`: those of partitions that end at a last stable offset (`read_committed`), as far as they matter.
    """

    topic_id: str
    earliest: By
    latest: By
    high_watermarks: By = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """The limits that the user wants. `starts`: offsets to begin at, or None for the end of the last load.

    `first_starts`: where the topic's first load begins. Partitions that a later load finds begin at their earliest
    offset. `until`: where to end, -1 for the end of the log. `at_latest`: some partition is to begin at the end of its
    log, wherever that is by then.
    """

    first_starts: By
    until: By
    starts: By | None = None
    fail_on_data_loss: bool = True
    restart_recreated: bool = False
    at_latest: bool = False


class Split(NamedTuple):
    """One task: offsets [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """One load of one topic. `positions`: [start, end) of every partition, even of those without new offsets."""

    topic: str
    topic_id: str
    load: int
    previous: int | None
    positions: Mapping[int, tuple[int, int]]
    lost: tuple[Lost, ...] = ()
    restarted: bool = False
    fixes_starts: bool = False
    """True if it records where a partition begins. The next load could not look that offset up: `latest` moves on."""

    @property
    def ranges(self) -> list[OffsetRange]:
        """The ranges to read."""
        lost = {each.partition: each.end for each in self.lost}
        return [
            OffsetRange(TopicPartition(self.topic, number), max(start, lost.get(number, 0)), end)
            for number, (start, end) in sorted(self.positions.items())
            if start < end
        ]

    @property
    def size(self) -> int:
        """The number of offsets to read."""
        return sum(each.size for each in self.ranges)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to publish: no new offsets, not even lost ones, and no start to record."""
        return not self.fixes_starts and all(start == end for start, end in self.positions.values())

    def splits(self, least: int, most_offsets: int | None) -> list[Split]:
        """Cut the ranges into about `least` splits of similar size, none of more than `most_offsets`."""
        cut = split_ranges(self.ranges, least, most_offsets)
        return [Split(each.tp.topic, each.tp.partition, each.start, each.end) for each in cut]


def plan_load(topic: str, last: Offsets | None, seen: Seen, wanted: Wanted) -> Plan:
    """Plan the next load of a topic after `last`, its newest published one.

    Raises:
        RecreatedTopicError: The topic was deleted and created again since it was loaded.
        LostOffsetsError: Offsets that should have been loaded are gone.
        PlanError: The wanted offsets are loaded already, would leave a gap, or lie beyond the partition's end.
    """
    restarted = last is not None and _is_recreated(topic, last, seen, wanted.restart_recreated)
    loaded: By = {} if last is None or restarted else last.ends
    _check_partitions(topic, loaded, seen)
    if wanted.starts is not None:
        _check_starts(topic, loaded, wanted.starts)
    positions: dict[int, tuple[int, int]] = {}
    lost: list[Lost] = []
    for number in sorted(seen.latest):
        if number in loaded:
            start = loaded[number]
        elif wanted.starts is not None:
            start = wanted.starts[number]
        else:
            # What a partition gained after the first load is new, whatever was there when that began.
            start = (wanted.first_starts if last is None else seen.earliest)[number]
        latest = seen.latest[number]
        until = wanted.until[number]
        _check_until(topic, number, until, latest)
        # A load that waits for no transaction ends at the high watermark. Now open ones may hold the end back.
        is_held_back = number in loaded and start <= seen.high_watermarks.get(number, latest)
        if start > latest and not is_held_back:
            raise _beyond_end(topic, number, start, latest, number in loaded)
        end = max(start, latest if until < 0 else min(until, latest))
        earliest = seen.earliest[number]
        if start < earliest and start < end:
            lost.append(Lost(number, start, min(earliest, end), f"the log now begins at {earliest}"))
        positions[number] = start, end
    if lost and wanted.fail_on_data_loss:
        raise LostOffsetsError(describe_lost(topic, lost))
    return Plan(
        topic=topic,
        topic_id=seen.topic_id,
        load=0 if last is None else last.load + 1,
        previous=None if last is None else last.load,
        positions=positions,
        lost=tuple(lost),
        restarted=restarted,
        fixes_starts=any(
            number not in loaded and (wanted.at_latest or start != seen.earliest[number])
            for number, (start, _) in positions.items()
        ),
    )


def describe_lost(topic: str, lost: Iterable[Lost]) -> str:
    """Describe the lost offsets, their number, and a remedy."""
    lost = list(lost)
    ranges = ", ".join(f"{topic}-{each.partition} [{each.start}, {each.end}) ({each.why})" for each in lost)
    count = sum(each.end - each.start for each in lost)
    return (
        f"{count} offsets that were to be loaded are gone: {ranges}. The brokers deleted them (retention or "
        "delete-records) before they were loaded. To load what is left, and have the gap written into the load's "
        "_offsets.json, add --no-fail-on-data-loss"
    )


def _is_recreated(topic: str, last: Offsets, seen: Seen, restart: bool) -> bool:
    if not last.topic_id or not seen.topic_id or last.topic_id == seen.topic_id:
        return False
    if not restart:
        raise RecreatedTopicError(
            f"topic {topic} was deleted and created again since load {last.load}: its id was {last.topic_id} and is "
            f"{seen.topic_id}, so the loaded offsets say nothing about it. Load it into another directory, or, to have "
            "its records beside those of the old topic, add --on-recreated-topic restart"
        )
    return True


def _check_partitions(topic: str, loaded: By, seen: Seen) -> None:
    if gone := sorted(loaded.keys() - seen.latest.keys()):
        names = ", ".join(f"{topic}-{number}" for number in gone)
        raise RecreatedTopicError(
            f"{names} was loaded before and does not exist any more: topic {topic} was deleted and created again with "
            "fewer partitions. Load it into another directory"
        )


def _check_starts(topic: str, loaded: By, starts: By) -> None:
    """Check that offsets are loaded only once, and in order."""
    for number in sorted(loaded.keys() & starts.keys()):
        start, end = starts[number], loaded[number]
        if start < end:
            raise PlanError(
                f"{topic}-{number}: offsets [{start}, {end}) are loaded already. Name another directory to load them "
                "again, or leave out where to start"
            )
        if start > end:
            raise PlanError(
                f"{topic}-{number}: the last load ended at {end}, and starting at {start} would leave offsets "
                f"[{end}, {start}) out for ever. Leave out where to start, or name another directory"
            )


def _check_until(topic: str, number: int, until: int, latest: int) -> None:
    if until > latest:
        raise PlanError(f"{topic}-{number}: --until asks for offset {until}, and the partition ends at {latest}")


def _beyond_end(topic: str, number: int, start: int, latest: int, loaded: bool) -> PlanError:
    if not loaded:
        return PlanError(f"{topic}-{number}: offset {start} to start from lies beyond the partition's end, {latest}")
    return RecreatedTopicError(
        f"{topic}-{number} was loaded up to offset {start}, and now ends at {latest}: the topic was deleted and "
        "created again, or the brokers lost records (an unclean leader election). Nothing of it can be loaded into "
        "this directory before it has grown beyond; load it into another one"
    )
