"""The options of the source: names, defaults, checks and messages of Spark's own Kafka source.

Reference: Spark's Structured Streaming + Kafka Integration Guide. PySpark hands over options with lower-cased names;
they are compared without regard to case. ``kafka.*`` options are client properties (``kafkalog.client.config``).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import TopicPartition

from .patterns import PatternError, compile_java

_log = logging.getLogger(__name__)
T = TypeVar("T")

EARLIEST = -2
LATEST = -1
_INT64_MAX = (1 << 63) - 1
_INT32_MAX = (1 << 31) - 1

DEFAULT_POLL_TIMEOUT_MS = 120_000
"""What ``spark.network.timeout`` is by default."""
DEFAULT_MAX_TRIGGER_DELAY_S = 15 * 60.0

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_BATCH_IGNORED = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_STREAM_REFUSED = {
    "endingOffsets": "ending offset not valid in streaming queries",
    "endingOffsetsByTimestamp": "ending timestamp not valid in streaming queries",
    "endingTimestamp": "ending timestamp not valid in streaming queries",
}
_OPTIONS = (
    *("subscribe", "subscribePattern", "assign", "failOnDataLoss", "includeHeaders", "groupIdPrefix"),
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy"),
    *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "minPartitions", "maxRecordsPerPartition"),
    *_BATCH_IGNORED,
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)
_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'

_REFUSED_PROPERTIES = {
    "auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
    "'startingOffsets' to 'earliest' or 'latest' to specify where to start. Structured Streaming manages which "
    "offsets are consumed internally, rather than relying on the kafkaConsumer to do it. Note that 'startingOffsets' "
    "only applies when a new query is started, and that resuming always picks up from where the query left off.",
    "key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays. "
    "Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
    "arrays. Use DataFrame operations to explicitly deserialize the values.",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}


class OptionsError(ValueError):
    """An option that is missing, wrong, or not allowed here; the message names it."""


# ---------------------------------------------------------------------------------------------- what to read


@dataclass(frozen=True)
class Assign:
    """``assign``: exactly these partitions."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class Subscribe:
    """``subscribe``: all partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class SubscribePattern:
    """``subscribePattern``: all partitions of the topics in whose names the pattern is found (``patterns``)."""

    pattern: str


Strategy = Assign | Subscribe | SubscribePattern


# ---------------------------------------------------------------------------------------------- from where, to where


@dataclass(frozen=True)
class AtEnd:
    """``earliest`` (-2) or ``latest`` (-1) in every partition."""

    which: int


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; -2 and -1 stand for the ends."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimestamps:
    """The first record at or after a time (ms) in each partition."""

    timestamps: Mapping[TopicPartition, int]
    latest_if_none: bool = False
    """Start at the end of a partition without such a record, instead of refusing."""


@dataclass(frozen=True)
class AtTimestamp:
    """The first record at or after one time (ms) in every partition."""

    timestamp: int
    latest_if_none: bool = False


Limit = AtEnd | AtOffsets | AtTimestamps | AtTimestamp


# ---------------------------------------------------------------------------------------------- JSON forms


def parse_offsets(text: str, example: str = _OFFSETS_EXAMPLE) -> dict[TopicPartition, int]:
    """``{"topic":{"0":23}}`` to a map; OptionsError shows what was expected."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    found: dict[TopicPartition, int] = {}
    if not isinstance(document, dict):
        raise OptionsError(f"Expected e.g. {example}, got {text}")
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OptionsError(f"Expected e.g. {example}, got {text}")
        for partition, offset in partitions.items():
            if not _is_partition(partition) or type(offset) is not int or abs(offset) > _INT64_MAX:
                raise OptionsError(f"Expected e.g. {example}, got {text}")
            found[TopicPartition(topic, int(partition))] = offset
    return found


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """``{"topic":[0,1]}`` to a set; OptionsError shows what was expected."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not all(
        isinstance(partitions, list) and all(type(p) is int and 0 <= p <= _INT32_MAX for p in partitions)
        for partitions in document.values()
    ):
        raise OptionsError(f"Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}")
    return frozenset(TopicPartition(topic, p) for topic, partitions in document.items() for p in partitions)


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= _INT32_MAX


# ---------------------------------------------------------------------------------------------- single values


class _Given:
    """The options as given: looked up without regard to case, each parsed with its name in the error."""

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


def _integer(name: str, text: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        raise OptionsError(f"{name}: expected an integer, got '{text}'") from None
    if abs(value) > _INT64_MAX:
        raise OptionsError(f"{name}: {text} does not fit in 64 bits")
    return value


def _positive(name: str, text: str) -> int:
    value = _integer(name, text)
    if value <= 0:
        raise OptionsError(f"{name} must be positive")
    return value


def _not_negative(name: str, text: str) -> int:
    value = _integer(name, text)
    if value < 0:
        raise OptionsError(f"{name} must not be negative")
    return value


def _boolean(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise OptionsError(f"{name}: expected true or false, got '{text}'")
    return word == "true"


def _single_timestamp(name: str, text: str) -> int:
    try:
        return _integer(name, text)
    except OptionsError:
        raise OptionsError(f"{name}: Expected a single long value, got {text}") from None


_UNITS_S = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip


def _duration(name: str, text: str) -> float:
    """Spark's time strings ("15m", "30s", "100ms"; a bare number is ms) in seconds."""
    match = re.fullmatch(r"\s*(-?\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in _UNITS_S):
        raise OptionsError(
            f"{name}: time must be specified as microseconds (us), milliseconds (ms), seconds (s), minutes (m or min), "
            f"hour (h) or day (d), e.g. 50s, 100ms or 250us; got '{text}'"
        )
    return int(match[1]) * _UNITS_S[match[2] or "ms"]


# ---------------------------------------------------------------------------------------------- all of them


@dataclass(frozen=True)
class SourceOptions:
    """Options of one source, checked as far as batch and streaming queries have them in common.

    ``starting`` and ``ending`` are None where nothing was said: the default depends on the kind of query, so take
    the limits from :meth:`batch_limits` or :meth:`stream_start`, which also check what only one kind allows.
    """

    strategy: Strategy
    client: ClientConfig
    properties: Mapping[str, str] = field(repr=False)
    """The ``kafka.*`` options, without that prefix; passwords may be among them."""
    starting: Limit | None = None
    ending: Limit | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = DEFAULT_MAX_TRIGGER_DELAY_S
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    given: frozenset[str] = field(default=frozenset())
    """Names of the options that were set, in lower case."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check and convert; raises OptionsError with the message of Spark's source where it has one."""
        given = _Given(options)
        strategy = _strategy(given)
        min_partitions = given.get("minPartitions", _positive, None)
        max_records = given.get("maxRecordsPerPartition", _positive, None)
        properties = given.with_prefix("kafka.")
        for name, message in _REFUSED_PROPERTIES.items():
            if name in properties:
                raise OptionsError(message)
        if not properties.get("bootstrap.servers", "").strip():
            raise OptionsError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
        try:
            client = ClientConfig.from_dict(properties)
        except ConfigError as error:
            raise OptionsError(f"kafka.{error}") from None
        _warn_about_groups(given)
        _warn_about_unknown(options, client)
        least = given.get("minOffsetsPerTrigger", _positive, None)
        most = given.get("maxOffsetsPerTrigger", _positive, None)
        if least is not None and most is not None and least > most:
            raise OptionsError(
                f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            )
        return cls(
            strategy=strategy,
            client=client,
            properties=properties,
            starting=_limit(given, "starting"),
            ending=_limit(given, "ending"),
            fail_on_data_loss=given.get("failOnDataLoss", _boolean, True),
            include_headers=given.get("includeHeaders", _boolean, False),
            min_partitions=min_partitions,
            max_records_per_partition=max_records,
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_s=given.get("maxTriggerDelay", _duration, DEFAULT_MAX_TRIGGER_DELAY_S),
            poll_timeout_ms=given.get("kafkaConsumer.pollTimeoutMs", _positive, DEFAULT_POLL_TIMEOUT_MS),
            offset_retries=given.get("fetchOffset.numRetries", _not_negative, 3),
            offset_retry_interval_ms=given.get("fetchOffset.retryIntervalMs", _not_negative, 10),
            given=frozenset(name.lower() for name in options),
        )

    def batch_limits(self) -> tuple[Limit, Limit]:
        """Start and end of a batch query; OptionsError for what only a stream may have."""
        starting = self.starting or AtEnd(EARLIEST)
        ending = self.ending or AtEnd(LATEST)
        if starting == AtEnd(LATEST):
            raise OptionsError("starting offset can't be latest for batch queries on Kafka")
        if isinstance(starting, AtOffsets):
            for tp, offset in starting.offsets.items():
                if offset == LATEST:
                    raise OptionsError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
        if ending == AtEnd(EARLIEST):
            raise OptionsError("ending offset can't be earliest for batch queries on Kafka")
        if isinstance(ending, AtOffsets):
            for tp, offset in ending.offsets.items():
                if offset == EARLIEST:
                    raise OptionsError(f"ending offset for {tp} can't be earliest for batch queries on Kafka")
        _check_order(starting, ending)
        for name in _BATCH_IGNORED:
            if name.lower() in self.given:
                _log.warning("%s option ignored in batch queries", name)
        return starting, ending

    def stream_start(self) -> Limit:
        """Start of a new streaming query; OptionsError for what only a batch may have."""
        for name, message in _STREAM_REFUSED.items():
            if name.lower() in self.given:
                raise OptionsError(message)
        return self.starting or AtEnd(LATEST)


def _strategy(given: _Given) -> Strategy:
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


def _limit(given: _Given, side: str) -> Limit | None:
    """``startingTimestamp`` before ``startingOffsetsByTimestamp`` before ``startingOffsets``, likewise ``ending…``."""
    latest_if_none = False
    if side == "starting":
        strategy = given.get("startingOffsetsByTimestampStrategy", lambda _, text: text.strip().lower(), "error")
        if strategy not in ("error", "latest"):
            raise OptionsError(f"startingOffsetsByTimestampStrategy: expected error or latest, got '{strategy}'")
        latest_if_none = strategy == "latest"
    if f"{side}Timestamp" in given:
        return AtTimestamp(given.get(f"{side}Timestamp", _single_timestamp, 0), latest_if_none)
    if f"{side}OffsetsByTimestamp" in given:
        text = given.text(f"{side}OffsetsByTimestamp")
        return AtTimestamps(parse_offsets(text, _TIMESTAMPS_EXAMPLE), latest_if_none)
    if f"{side}Offsets" not in given:
        return None
    text = given.text(f"{side}Offsets").strip()
    if text.lower() in ("earliest", "latest"):
        return AtEnd(EARLIEST if text.lower() == "earliest" else LATEST)
    offsets = parse_offsets(text)
    for tp, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionsError(
                f"{side}Offsets: offset {offset} of {tp} is negative; -1 stands for latest and -2 for earliest"
            )
    return AtOffsets(offsets)


def _check_order(starting: Limit, ending: Limit) -> None:
    """Refuse a start behind its end where both were given in the same terms."""
    pairs: list[tuple[Any, int, int, str]] = []
    if isinstance(starting, AtTimestamp) and isinstance(ending, AtTimestamp):
        pairs = [("all partitions", starting.timestamp, ending.timestamp, "Timestamp")]
    elif isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        pairs = [
            (tp, starting.timestamps[tp], ending.timestamps[tp], "OffsetsByTimestamp")
            for tp in starting.timestamps.keys() & ending.timestamps.keys()
        ]
    elif isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        pairs = [
            (tp, starting.offsets[tp], ending.offsets[tp], "Offsets")
            for tp in starting.offsets.keys() & ending.offsets.keys()
            if starting.offsets[tp] >= 0 and ending.offsets[tp] >= 0
        ]
    for where, start, end, what in pairs:
        if start > end:
            raise OptionsError(
                f"The value of starting{what} ({start}) is higher than the value of ending{what} ({end}) for {where}"
            )


def _warn_about_groups(given: _Given) -> None:
    if "kafka.group.id" in given:
        _log.warning(
            "Kafka option 'kafka.group.id' has been set on this query, it is not recommended to set this option. "
            "The query assigns partitions itself and never joins the group."
        )
        if "groupIdPrefix" in given:
            _log.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")


def _warn_about_unknown(options: Mapping[str, str], client: ClientConfig) -> None:
    """Tell of options that nothing here knows: a misspelt one would otherwise do nothing in silence."""
    known = {name.lower() for name in _OPTIONS}
    for name in sorted(options):
        if name.lower() not in known and not name.lower().startswith("kafka."):
            close = get_close_matches(name.lower(), known, n=1)
            meant = [option for option in _OPTIONS if option.lower() in close]
            hint = f"; did you mean {meant[0]}?" if meant else ""
            _log.warning("Option %s is not known and has no effect%s", name, hint)
    for key in sorted(client.unknown.keys() - {"group.id"}):
        _log.warning("Option kafka.%s is not known and has no effect", key)
