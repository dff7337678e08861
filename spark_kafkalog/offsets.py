"""Positions in topics, and their JSON form in Spark's checkpoints.

An offset is the position of the next record to read (last + 1). Its JSON form is `{"topic":{"0":42}}`, the form of
`startingOffsets` and of the checkpoints of Spark's source. PySpark compares offsets as JSON text, so `to_json`
orders topics by name and partitions by number.

When a topic is deleted and created again, its offsets name other records. So a position carries the ids of its topics:
`{"topic":{"0":42},"id:J2zBe_1rTjG0dC4QO1bWWg:topic":{}}`. The id is part of a key whose value is empty. So code that
looks for partitions or offsets (Spark's own source and `startingOffsets`, too) finds only those of real topics.

The start of the first batch needs care. Spark gives a Python source no place to store it, and asks for it again when it
repeats the first batch after a crash; by then `latest` may have moved. So the end of the first batch carries its
start (`with_initial`) through Spark's offset log, and a repeated plan of that batch finds the original start. The
start is part of keys without partitions, too: `{"topic":{"0":42},"initial:0=40:topic":{}}`.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafkalog.client.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
Lookup = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Looks up offsets of timestamps (ms; -2 earliest, -1 latest). The offset is -1 if no record is that late. Missing
from the answer are deleted partitions, and by time those whose messages have no timestamps (of before Kafka 0.10)."""

_ID = "id:"
"""Marks a topic's id. Neither a topic's name nor an id can contain ':'."""
_INITIAL = "initial:"
"""Marks a topic's start in the end of the first batch: `initial:0=40,1=7:topic`, partitions and their offsets."""

OffsetJson = dict[str, dict[str, int]]


class Position(NamedTuple):
    """Offsets, and the ids of their topics: `topic_mark` by the topic's name, where it is known."""

    offsets: Offsets
    topics: Mapping[str, str] = {}

    def recreated(self, now: Position) -> set[str]:
        """Return the topics that were deleted and created again between this position and `now`."""
        return {topic for topic, mark in self.topics.items() if now.topics.get(topic, mark) != mark}

    def surviving(self, now: Position) -> dict[TopicPartition, int]:
        """Return the offsets that are still valid: those of topics that were not created again."""
        gone = self.recreated(now)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in gone}


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets. There may be fewer records: compaction and transaction markers leave gaps."""
        return self.end - self.start


def topic_mark(topic_id: UUID) -> str | None:
    """Return a topic's id as Kafka's tools write it; None for a topic without one (brokers before 2.8)."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode() if topic_id.int else None


def topic_id_of(mark: str | None) -> UUID:
    """Return the id that a mark stands for; zero for None, and for a text that is no mark."""
    try:
        return UUID(bytes=urlsafe_b64decode(f"{mark or ''}=="))
    except ValueError:
        return UUID(int=0)


def to_json(position: Offsets | Position) -> OffsetJson:
    """Return a position's offset document. Equal positions give equal text."""
    offsets, marks = position if isinstance(position, Position) else (position, {})
    document: OffsetJson = {}
    for tp, offset in sorted(offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return document | {f"{_ID}{marks[topic]}:{topic}": {} for topic in list(document) if topic in marks}


def position_of(document: Mapping[str, Any]) -> Position:
    """Return the position in an offset document, without the start that the end of a first batch carries."""
    return _parse({topic: partitions for topic, partitions in document.items() if not topic.startswith(_INITIAL)})


def from_json(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the offsets in an offset document."""
    return dict(position_of(document).offsets)


def with_initial(document: OffsetJson, initial: Offsets | Position) -> OffsetJson:
    """Add the start of the first batch to the document of its end. The start may be empty."""
    carried: OffsetJson = {}
    for topic, partitions in (to_json(initial) or {"": {}}).items():
        listed = ",".join(f"{partition}={offset}" for partition, offset in partitions.items())
        carried[f"{_INITIAL}{listed}:{topic}" if listed else _INITIAL + topic] = {}
    return document | carried


def initial_of(document: Mapping[str, Any]) -> Position | None:
    """Return the start that the end of a first batch carries; None for any other offset document."""
    carried: dict[str, Any] = {}
    for key, partitions in document.items():
        if not key.startswith(_INITIAL):
            continue
        listed, _, topic = key.removeprefix(_INITIAL).rpartition(":")
        if partitions or not listed or listed.startswith(_ID):
            # A topic's id, an empty start, or offsets as checkpoints of before hold them: under the topic's name.
            carried[key.removeprefix(_INITIAL)] = partitions
        else:
            carried[topic] = dict(each.split("=", 1) for each in listed.split(",") if "=" in each)
    return _parse(carried) if carried else None


def _parse(document: Mapping[str, Any]) -> Position:
    offsets: dict[TopicPartition, int] = {}
    marks: dict[str, str] = {}
    try:
        for topic, partitions in document.items():
            if topic.startswith(_ID):
                mark, _, name = topic.removeprefix(_ID).partition(":")
                marks[name] = mark
            for partition, offset in partitions.items():
                offsets[TopicPartition(topic, int(partition))] = int(offset)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f'{document} is no offset of this source; expected e.g. {{"topicA":{{"0":23,"1":42}}}}. The checkpoint '
            "may belong to a query with another source."
        ) from None
    return Position(offsets, marks)


def names(partitions: Iterable[TopicPartition]) -> str:
    """Format a set of partitions as Spark's messages do."""
    return f"Set({', '.join(str(tp) for tp in sorted(partitions))})"
