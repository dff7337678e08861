"""Planning over maps of offsets: where to start and end, which ranges to read, how to cut them into tasks.

Pure functions: what brokers know comes in as maps, or as a ``Lookup`` that is asked; losses go to ``report``. The
rules are those of Spark's Kafka source, so that a query plans the same with either.

An offset is the position of the next record to read (last + 1). Its JSON form is ``{"topic":{"0":42}}``, the form of
``startingOffsets`` and of the checkpoints of Spark's source. PySpark compares offsets as JSON text, therefore
``to_json`` orders topics by name and partitions by number.

A topic that was deleted and created again has offsets that mean other records, so a position carries which topics it is
of: ``{"topic":{"0":42},"id:J2zBe_1rTjG0dC4QO1bWWg:topic":{}}``. The id is in a key, and what it holds is empty: whoever
looks for partitions or offsets, Spark's own source and ``startingOffsets`` included, finds those of topics alone.

The start of the first batch needs care: Spark gives a Python source no place to store it, and asks for it again when
the first batch is repeated after a crash, when ``latest`` may have moved. So the end of the first batch carries its
start (``with_initial``) through Spark's offset log: planning that batch again finds the start that was meant.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafkalog.client.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
Lookup = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Timestamps (ms; -2 earliest, -1 latest) to offsets; -1 where no record is that late. Partitions that are gone
are missing from the answer."""

_ID = "id:"
"""Marks a topic's id; ':' cannot be part of a topic's name, nor of an id."""
_INITIAL = "initial:"
"""Marks a topic's start in the end of the first batch."""

OffsetJson = dict[str, dict[str, int]]


class Position(NamedTuple):
    """Offsets, and which topics they are of: `topic_mark` of each topic by name, where that is known."""

    offsets: Offsets
    topics: Mapping[str, str] = {}

    def recreated(self, now: Position) -> set[str]:
        """Topics that are not the ones they were: deleted and created again in between."""
        return {topic for topic, mark in self.topics.items() if now.topics.get(topic, mark) != mark}

    def surviving(self, now: Position) -> dict[TopicPartition, int]:
        """The offsets that still mean something: those of topics that were not created again."""
        gone = self.recreated(now)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in gone}


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets: at least the number of records (compaction and transaction markers leave gaps)."""
        return self.end - self.start


def topic_mark(topic_id: UUID) -> str | None:
    """A topic's id as Kafka's tools write it; None for a topic without one (brokers before 2.8)."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode() if topic_id.int else None


def to_json(position: Offsets | Position) -> OffsetJson:
    """The document whose text is the same whenever the position is."""
    offsets, marks = position if isinstance(position, Position) else (position, {})
    document: OffsetJson = {}
    for tp, offset in sorted(offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return document | {f"{_ID}{marks[topic]}:{topic}": {} for topic in list(document) if topic in marks}


def position_of(document: Mapping[str, Any]) -> Position:
    """The position that an offset document stands for, without a start that the first batch carries."""
    return _parse({topic: partitions for topic, partitions in document.items() if not topic.startswith(_INITIAL)})


def from_json(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The offsets of an offset document."""
    return dict(position_of(document).offsets)


def with_initial(document: OffsetJson, initial: Offsets | Position) -> OffsetJson:
    """The end of the first batch, which carries the start of that batch (an empty one, too)."""
    return document | {_INITIAL + topic: partitions for topic, partitions in (to_json(initial) or {"": {}}).items()}


def initial_of(document: Mapping[str, Any]) -> Position | None:
    """The start that the end of a first batch carries, or None in any other offset."""
    carried = {
        topic.removeprefix(_INITIAL): partitions for topic, partitions in document.items() if topic.startswith(_INITIAL)
    }
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
    """Partitions as Spark's messages show a set of them."""
    return f"Set({', '.join(str(tp) for tp in sorted(partitions))})"
