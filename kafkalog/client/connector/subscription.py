"""The subscription of a member of a group in ZooKeeper, and the node that holds it.

    {"version": 1, "subscription": {"words": 2}, "pattern": "static", "timestamp": "1416400000000"}

For the patterns `white_list` and `black_list` the only key of `subscription` is a regular expression over topics.
Java's members compile it with `java.util.regex` (`kafkalog.java_regex`).
Source: `TopicCount` and `TopicFilter` of Kafka 0.8.2.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafkalog.client.consumer.assignors.java_order import java_key
from kafkalog.client.consumer.topic_filter import Blacklist, TopicFilter, Whitelist
from kafkalog.client.errors import ConfigError
from kafkalog.client.zookeeper.nodes import MalformedNodeError, parse_json

INTERNAL_TOPICS = frozenset({"__consumer_offsets"})
"""The topics that `exclude.internal.topics` hides from filters. Kafka 0.8 knows no others, and each member must come to
the same topics for all members."""


class Pattern(Enum):
    """The pattern by which a subscription names topics."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


class ThreadId(NamedTuple):
    """A stream of a member. The streams of each topic are numbered from 0."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


def in_order(threads: Iterable[ThreadId]) -> list[ThreadId]:
    """Sort streams as all members do: as strings, by UTF-16 code units."""
    return sorted(threads, key=lambda each: java_key(str(each)))


@dataclass(frozen=True)
class Subscription:
    """The topics of a member, with the number of streams of each; or a filter with the number of its streams."""

    pattern: Pattern
    counts: Mapping[str, int]

    @classmethod
    def of_topics(cls, counts: Mapping[str, int]) -> Subscription:
        """Make a subscription to topics, each with its number of streams.

        Raises:
            ConfigError: There is no topic, or a topic has no streams.
        """
        if not counts or min(counts.values()) < 1:
            raise ConfigError(f"{dict(counts)}: expected at least one topic, and at least one stream of each")
        return cls(Pattern.STATIC, dict(counts))

    @classmethod
    def of_filter(cls, topics: TopicFilter, streams: int) -> Subscription:
        """Make a subscription to the topics of a filter, which share `streams` streams.

        Raises:
            ConfigError: There are no streams, or other members could not read the filter as an expression of Java.
        """
        if streams < 1:
            raise ConfigError(f"{streams} streams: expected at least one")
        pattern = Pattern.BLACK_LIST if isinstance(topics, Blacklist) else Pattern.WHITE_LIST
        expression = topics.pattern.pattern if topics.expression is None else topics.expression
        subscription = cls(pattern, {expression: streams})
        subscription.select(())
        return subscription

    @classmethod
    def decode(cls, path: str, data: bytes) -> Subscription:
        """Read the node of a member.

        Raises:
            MalformedNodeError: It holds no subscription, or an expression that cannot be read here. The partitions of
                this member cannot be known then.
        """
        found = parse_json(path, data)
        counts, pattern = found.get("subscription"), found.get("pattern")
        if not isinstance(counts, dict) or not isinstance(pattern, str):
            raise MalformedNodeError(f"{path} holds no subscription with a pattern, as members of Kafka 0.8 write it")
        if not all(type(each) is int and 0 < each < 1 << 16 for each in counts.values()):
            raise MalformedNodeError(f"{path} holds a wrong number of streams")
        if not counts or pattern not in (Pattern.WHITE_LIST.value, Pattern.BLACK_LIST.value):
            return cls(Pattern.STATIC, counts)
        subscription = cls(Pattern(pattern), dict([next(iter(counts.items()))]))
        try:
            subscription.select(())
        except ConfigError as error:
            # Members that come to different topics leave partitions to each other, or want the same ones for ever.
            raise MalformedNodeError(
                f"{path}: {error}. No member here owns partitions until that member has left the group"
            ) from None
        return subscription

    def encode(self, timestamp_ms: int) -> bytes:
        """Return what the node of the member holds."""
        content = {
            "version": 1,
            "subscription": dict(self.counts),
            "pattern": self.pattern.value,
            "timestamp": str(timestamp_ms),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @property
    def is_filter(self) -> bool:
        return self.pattern is not Pattern.STATIC

    def select(self, topics: Collection[str], *, exclude_internal: bool = True) -> dict[str, int]:
        """Return the topics of the subscription, with the number of streams of each.

        Args:
            topics: All topics, of which a filter selects.
            exclude_internal: Whether filters leave out internal topics.
        """
        if self.pattern is Pattern.STATIC:
            return dict(self.counts)
        ((expression, streams),) = self.counts.items()
        chosen = Whitelist(expression) if self.pattern is Pattern.WHITE_LIST else Blacklist(expression)
        hidden = INTERNAL_TOPICS if exclude_internal else frozenset()
        return {topic: streams for topic in topics if topic not in hidden and chosen.allows(topic)}


def threads_of(consumer: str, counts: Mapping[str, int]) -> dict[str, list[ThreadId]]:
    """Return the streams of a member by topic."""
    return {topic: [ThreadId(consumer, number) for number in range(count)] for topic, count in counts.items()}
