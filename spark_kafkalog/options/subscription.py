"""The partitions that a query reads: `assign`, `subscribe` or `subscribePattern`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition
from spark_kafkalog.options.java_patterns import PatternError, compile_java
from spark_kafkalog.options.parsing import Given, OptionsError, parse_partitions

_STRATEGIES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class Assign:
    """`assign`: exactly these partitions."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class Subscribe:
    """`subscribe`: all partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class SubscribePattern:
    """`subscribePattern`: all partitions of topics whose names contain a match of the pattern (`java_patterns`)."""

    pattern: str


Strategy = Assign | Subscribe | SubscribePattern


def named_topics(strategy: Strategy) -> list[str]:
    """Return the topics that a query names; none if it has a pattern."""
    if isinstance(strategy, Assign):
        return sorted({tp.topic for tp in strategy.partitions})
    return list(strategy.topics) if isinstance(strategy, Subscribe) else []


def covers(strategy: Strategy, tp: TopicPartition) -> bool:
    """Return whether a query reads a partition if it exists."""
    if isinstance(strategy, Assign):
        return tp in strategy.partitions
    if isinstance(strategy, Subscribe):
        return tp.topic in strategy.topics
    return compile_java(strategy.pattern)(tp.topic)


def names_a_source(options: Iterable[str]) -> bool:
    """Return whether names of options name topics to read, and so belong to a source rather than a sink."""
    known = {name.lower() for name in _STRATEGIES}
    return any(name.lower() in known for name in options)


def parse_strategy(given: Given) -> Strategy:
    named = [name for name in _STRATEGIES if name in given]
    if not named:
        raise OptionsError(
            "One of the following options must be specified for Kafka source: "
            f"{', '.join(_STRATEGIES)}. See the docs for more details."
        )
    if len(named) > 1:
        raise OptionsError(
            "Only one of the following options can be specified for Kafka source: "
            f"{', '.join(_STRATEGIES)}. See the docs for more details."
        )
    value = given.text(named[0])
    if named[0] == "assign":
        partitions = parse_partitions(value) if value.strip().startswith("{") else frozenset()
        if not partitions:
            raise OptionsError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
        return Assign(partitions)
    if named[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic for topic in map(str.strip, value.split(",")) if topic))
        if not topics:
            raise OptionsError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return Subscribe(topics)
    pattern = value.strip()
    if not pattern:
        raise OptionsError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        compile_java(pattern)
    except PatternError as error:
        raise OptionsError(f"subscribePattern '{pattern}' {error}") from None
    return SubscribePattern(pattern)
