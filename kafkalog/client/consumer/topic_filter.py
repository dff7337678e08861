"""Filters of topics by regular expression: Kafka's white lists, black lists and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkalog.client.errors import ConfigError
from kafkalog.java_regex import UnreadableExpressionError, compile_java

_QUOTES = "\"'"


def _read(text: str) -> tuple[re.Pattern[str], str]:
    """Read a list as Kafka 0.8 did: commas separate alternatives; spaces and outer quotes are ignored."""
    expression = text.strip().replace(",", "|").replace(" ", "").strip(_QUOTES)
    try:
        return compile_java(expression), expression
    except UnreadableExpressionError as error:
        raise ConfigError(f"{text!r} is no regular expression of Java that can be read here: {error}") from None


@dataclass(frozen=True)
class TopicFilter:
    """Topics whose whole name matches an expression. The consumer's configuration decides about internal topics."""

    pattern: re.Pattern[str]
    expression: str | None = field(default=None, kw_only=True)
    """The expression as members of Kafka 0.8 read it, if that is not the text of `pattern`."""

    @classmethod
    def of(cls, pattern: str | re.Pattern[str]) -> TopicFilter:
        """Make a filter of a regular expression.

        Raises:
            ConfigError: The expression is invalid.
        """
        if isinstance(pattern, re.Pattern):
            return cls(pattern)
        try:
            return cls(re.compile(pattern))
        except re.error as error:
            raise ConfigError(f"{pattern!r} is no regular expression: {error}") from None

    def allows(self, topic: str) -> bool:
        return self.pattern.fullmatch(topic) is not None

    def select(self, topics: Iterable[str]) -> frozenset[str]:
        """Select the topics that the filter allows."""
        return frozenset(filter(self.allows, topics))


@dataclass(frozen=True)
class SubscriptionPattern:
    """A regular expression of RE2 that the group's coordinator matches with whole topic names (KIP-848).

    It needs `group.protocol=consumer`. The coordinator finds new topics, so the consumer needs the metadata of its
    assigned topics only.

    Raises:
        ConfigError: The expression is empty.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ConfigError("a SubscriptionPattern is empty; name a regular expression")


class Whitelist(TopicFilter):
    """The topics of a white list: `"orders,clicks_.*"`. The list is a regular expression of Java.

    Raises:
        ConfigError: It cannot be read.
    """

    def __init__(self, text: str) -> None:
        pattern, expression = _read(text)
        super().__init__(pattern, expression=expression)


class Blacklist(TopicFilter):
    """All topics but those of a black list, which is a regular expression of Java.

    Raises:
        ConfigError: It cannot be read.
    """

    def __init__(self, text: str) -> None:
        pattern, expression = _read(text)
        super().__init__(pattern, expression=expression)

    def allows(self, topic: str) -> bool:
        return not super().allows(topic)
