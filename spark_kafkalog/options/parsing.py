"""Parsers of single option values: numbers, sizes, durations, and the JSON of offsets and partitions.

Every parser takes the option's name, for an error message that shows what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from kafkalog.client.types import TopicPartition

T = TypeVar("T")

INT64_MAX = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
_MOST_BATCH_BYTES = 2 << 30
_MOST_DIGITS = 19
"""Digits of a number that fits in 64 bits. Python refuses to convert a text of thousands of digits."""
_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'


class OptionsError(ValueError):
    """An option is missing, wrong, or not allowed here; the message names it."""


# ---------------------------------------------------------------------------------------------- JSON forms


def parse_offsets(
    option: str, text: str, example: str = _OFFSETS_EXAMPLE, words: tuple[str, ...] = ()
) -> dict[TopicPartition, int]:
    """Parse `{"topic":{"0":23}}`.

    `words` are the values that the option may have instead, for the error.

    Raises:
        OptionsError: The text is something else. The error names the option and shows what was expected.
    """
    instead = "".join(f"'{word}', " for word in words)
    expected = f"{option}: Expected {f'{instead}or JSON, ' if words else ''}e.g. {example}, got {text}"
    if (
        words
        and not text.lstrip().startswith(("{", "["))
        and (close := get_close_matches(text.strip().lower(), words, 1))
    ):
        expected += f"; did you mean '{close[0]}'?"
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    found: dict[TopicPartition, int] = {}
    if not isinstance(document, dict):
        raise OptionsError(expected)
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OptionsError(expected)
        for partition, offset in partitions.items():
            if not _is_partition(partition) or type(offset) is not int or abs(offset) > INT64_MAX:
                raise OptionsError(expected)
            found[TopicPartition(topic, int(partition))] = offset
    return found


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """Parse `{"topic":[0,1]}`.

    Raises:
        OptionsError: The text is something else. The error shows what was expected.
    """
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not all(
        isinstance(partitions, list) and all(type(p) is int and 0 <= p <= INT32_MAX for p in partitions)
        for partitions in document.values()
    ):
        raise OptionsError(f"assign: Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}")
    return frozenset(TopicPartition(topic, p) for topic, partitions in document.items() for p in partitions)


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) <= INT32_MAX


# ---------------------------------------------------------------------------------------------- single values


class Given:
    """The options as given. Lookups ignore case, and parsers get the option's name for their errors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, name: str) -> str:
        return self._options[name.lower()]

    def get(self, name: str, parse: Callable[[str, str], T], default: T) -> T:
        return parse(name, self.text(name)) if name in self else default

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {name[len(prefix) :]: value for name, value in self._options.items() if name.startswith(prefix)}


def missing_servers(options: Mapping[str, str], client: str) -> OptionsError:
    """Return the error of options without `kafka.bootstrap.servers`, with a hint if only its prefix is missing."""
    message = f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}"
    if any(name.lower() == "bootstrap.servers" for name in options):
        message += ". Names of client properties begin with 'kafka.': rename 'bootstrap.servers'"
    return OptionsError(message)


def integer(name: str, text: str) -> int:
    try:
        # Python allows underscores between digits, and Java does not.
        value = int(text.strip().replace("_", "?"))
    except ValueError:
        raise OptionsError(f"{name}: expected an integer, got '{text}'") from None
    if abs(value) > INT64_MAX:
        raise OptionsError(f"{name}: {text} does not fit in 64 bits")
    return value


def positive(name: str, text: str) -> int:
    value = integer(name, text)
    if value <= 0:
        raise OptionsError(f"{name} must be positive")
    return value


def positive_int32(name: str, text: str) -> int:
    value = positive(name, text)
    if value > INT32_MAX:
        raise OptionsError(f"{name}: {text} does not fit in 32 bits")
    return value


def not_negative(name: str, text: str) -> int:
    value = integer(name, text)
    if value < 0:
        raise OptionsError(f"{name} must not be negative")
    return value


def boolean(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise OptionsError(f"{name}: expected true or false, got '{text}'")
    return word == "true"


def single_timestamp(name: str, text: str) -> int:
    try:
        return integer(name, text)
    except OptionsError:
        raise OptionsError(f"{name}: Expected a single long value, got {text}") from None


_SIZES = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}


def size_or_none(name: str, text: str) -> int:
    """Parse a size as `size` does, but allow 0."""
    match = re.fullmatch(rf"\s*(\d{{1,{_MOST_DIGITS}}})\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _SIZES:
        raise OptionsError(f"{name}: expected a size such as 1048576, 512k, 64m or 2g, got '{text}'")
    return not_negative(name, str(int(match[1]) << _SIZES[match[2]]))


def size(name: str, text: str) -> int:
    """Parse a size in Spark's form ("512m", "1gb"; a bare number is bytes) into bytes, at least 1."""
    return positive(name, str(size_or_none(name, text)))


def batch_size(name: str, text: str) -> int:
    """Parse the most bytes that a record batch may expand to, at most 2g: offsets in Arrow arrays have 32 bits."""
    value = size(name, text)
    if value > _MOST_BATCH_BYTES:
        raise OptionsError(f"{name} must be at most 2g, got '{text}'")
    return value


_UNITS_S = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip


def duration(name: str, text: str) -> float:
    """Parse a time string in Spark's form ("15m", "30s", "100ms"; a bare number is ms) into seconds."""
    match = re.fullmatch(rf"\s*(-?\d{{1,{_MOST_DIGITS}}})\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in _UNITS_S):
        raise OptionsError(
            f"{name}: time must be specified as microseconds (us), milliseconds (ms), seconds (s), minutes (m or min), "
            f"hour (h) or day (d), e.g. 50s, 100ms or 250us; got '{text}'"
        )
    return int(match[1]) * _UNITS_S[match[2] or "ms"]
