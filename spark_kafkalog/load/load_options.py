"""The options of a load, checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from kafkalog.client.types import TopicPartition
from spark_kafkalog.load.layout.staging import HEARTBEAT_S, STALE_AFTER_S
from spark_kafkalog.options.java_patterns import PatternError, compile_java
from spark_kafkalog.options.limits import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, Limit
from spark_kafkalog.options.parsing import OptionsError, batch_size, parse_offsets
from spark_kafkalog.options.source_options import SourceOptions

FORMATS = ("parquet", "avro", "raw")
COMPRESSION_LEVEL = 3
"""The level of zstd that Spark writes with."""
MOST_SPLIT_RECORDS = 4_000_000
MOST_FILE_BYTES = 512 << 20
FROM_EARLIEST = AtEnd(EARLIEST)
UNTIL_LATEST = AtEnd(LATEST)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EIGHT_DIGITS = re.compile("[0-9]{8}")
_YEARS = range(1970, 2100)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_UNTIL_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":42}}'
_AS_BYTES = "keys and values are loaded as the bytes that they are"
_REFUSED_PROPERTIES = {
    "auto.offset.reset": "--from earliest or --from latest says where the first load of a topic begins, and later ones "
    "go on where the last one ended",
    "key.deserializer": _AS_BYTES,
    "value.deserializer": _AS_BYTES,
    "enable.auto.commit": "loads commit nothing, because _offsets.json has their offsets",
    "interceptor.classes": "loads run no interceptors",
}


@dataclass(frozen=True)
class LoadOptions:
    """The options of one load of some topics.

    `first`: where the first load of a topic begins. `start`: where to begin in any case (refused if that would
    load offsets twice, or leave some out). `until`: where to end.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    to: str
    first: AtEnd = FROM_EARLIEST
    start: AtOffsets | AtTimestamp | None = None
    until: Limit = UNTIL_LATEST
    format: str = "parquet"
    topic_pattern: str | None = None
    """A Java regular expression, in place of `topics`: the topics of the cluster in whose names it is found."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client properties; passwords may be among them."""
    fail_on_data_loss: bool = True
    restart_recreated: bool = False
    poll_timeout_s: int | None = None
    """The seconds for which a task waits for its next record; None for the source's default."""
    max_batch_bytes: int | None = None
    """The most bytes that one record batch may have once it is decompressed; None for the source's default."""
    min_splits: int | None = None
    most_split_records: int = MOST_SPLIT_RECORDS
    most_file_bytes: int = MOST_FILE_BYTES
    compression_level: int = COMPRESSION_LEVEL
    stale_after_s: float = STALE_AFTER_S
    heartbeat_s: float = HEARTBEAT_S

    def __post_init__(self) -> None:
        if not self.topics and self.topic_pattern is None:
            raise OptionsError("--topic names no topic")
        if self.topic_pattern is not None:
            _check_pattern(self.topic_pattern, self.topics)
        for topic in self.topics:
            check_topic(topic)
        if self.format not in FORMATS:
            raise OptionsError(f"--format {self.format}: expected one of {', '.join(FORMATS)}")
        for option, limit in (("--from-offsets", self.start), ("--until", self.until)):
            if isinstance(limit, AtOffsets):
                if self.topic_pattern is not None:
                    raise OptionsError(f"{option} names offsets, and --topic-pattern no topics: use --topic")
                _check_offsets(option, limit.offsets, self.topics)
        if self.max_batch_bytes is not None:
            batch_size("--max-batch-bytes", str(self.max_batch_bytes))
        check_stale_after(self.stale_after_s, self.heartbeat_s)
        for name in sorted({each.lower() for each in self.properties} & _REFUSED_PROPERTIES.keys()):
            raise OptionsError(
                f"the client property {name} cannot be set for a load: {_REFUSED_PROPERTIES[name]}. Leave it out"
            )

    def starts_at_latest(self, topic: str) -> bool:
        """Return whether some partition of a topic is to begin at the end of its log, which moves on."""
        begin = self.first if self.start is None else self.start
        if isinstance(begin, AtOffsets):
            return any(tp.topic == topic and offset == LATEST for tp, offset in begin.offsets.items())
        return begin == AtEnd(LATEST)

    def source(self, topic: str) -> SourceOptions:
        """Return the options of the source that reads one topic.

        Raises:
            OptionsError: A client property is wrong.
        """
        given = self._given
        given |= {"subscribe": topic, "failOnDataLoss": str(self.fail_on_data_loss).lower(), "includeHeaders": "true"}
        return SourceOptions.parse(given, shown_prefix="")

    def matching(self) -> SourceOptions:
        """Return the options of a source with `topic_pattern`.

        Raises:
            OptionsError: A client property is wrong.
        """
        assert self.topic_pattern is not None
        return SourceOptions.parse(self._given | {"subscribePattern": self.topic_pattern}, shown_prefix="")

    @property
    def _given(self) -> dict[str, str]:
        given = {f"kafka.{key}": value for key, value in self.properties.items()}
        if self.poll_timeout_s is not None:
            given["kafkaConsumer.pollTimeoutMs"] = str(self.poll_timeout_s * 1000)
        if self.max_batch_bytes is not None:
            given["maxBatchBytes"] = str(self.max_batch_bytes)
        return given | {"kafka.bootstrap.servers": self.bootstrap_servers}


def _check_pattern(pattern: str, topics: Sequence[str]) -> None:
    if topics:
        raise OptionsError("--topic and --topic-pattern cannot be used together")
    if not pattern:
        raise OptionsError("--topic-pattern is empty; '.*' is found in the names of all topics")
    try:
        compile_java(pattern)
    except PatternError as error:
        raise OptionsError(f"--topic-pattern '{pattern}' {error}") from None


def check_topic(name: str) -> None:
    """Check that a text can be a topic's name, since it becomes part of a path.

    Raises:
        OptionsError: It cannot be one.
    """
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise OptionsError(f"--topic {name}: is no name of a topic (letters, digits, '.', '_' and '-', at most 249)")


def check_stale_after(stale_after_s: float, heartbeat_s: float = HEARTBEAT_S) -> None:
    """Check that a live run cannot be silent for the time, and be swept.

    Raises:
        OptionsError: The time is too short.
    """
    if not stale_after_s >= 3 * heartbeat_s:  # also refuses nan
        raise OptionsError(f"--stale-after must be at least {3 * heartbeat_s:g} seconds: three heartbeats")


def topic_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names in repeated options and comma lists, each once."""
    return tuple(dict.fromkeys(name.strip() for each in given for name in each.split(",") if name.strip()))


def parse_time(option: str, text: str) -> AtTimestamp:
    """Parse milliseconds since 1970, or ISO 8601 (UTC if it has no zone).

    Raises:
        OptionsError: The text is no such time, or may be either.
    """
    text = text.strip()
    _check_meaning(option, text)
    try:
        millis = int(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise OptionsError(
                f"{option} {text}: expected milliseconds since 1970, or a time such as 2026-11-21T18:00:00Z"
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # Rounded up, because no earlier millisecond is as late. A product of floats would be one less at times.
        millis = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if not 0 <= millis < 1 << 63:
        raise OptionsError(f"{option} {text}: is before 1970 or does not fit in 64 bits")
    return AtTimestamp(millis, latest_if_none=True)


def _check_meaning(option: str, text: str) -> None:
    """Refuse eight digits that are a date of this or the last decades in ISO 8601, and a time in January 1970."""
    if not _EIGHT_DIGITS.fullmatch(text):
        return
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return
    if day.year in _YEARS:
        raise OptionsError(
            f"{option} {text}: may be the date {day} or {text} milliseconds since 1970; write {day} for the date, or "
            f"0{text} for the milliseconds"
        )


def parse_until(text: str) -> Limit:
    """Parse `latest`, a time, or offsets as JSON."""
    text = text.strip()
    if not text:
        raise OptionsError("--until is empty: leave it out to load up to the end, or name a time or offsets")
    if text.lower() == "latest":
        return UNTIL_LATEST
    if text.startswith("{"):
        return AtOffsets(parse_offsets("--until", text, _UNTIL_EXAMPLE))
    try:
        return parse_time("--until", text)
    except OptionsError as error:
        raise OptionsError(f"{error}; or latest, or offsets as JSON") from None


def _check_offsets(option: str, offsets: Mapping[TopicPartition, int], topics: Sequence[str]) -> None:
    named = {tp.topic for tp in offsets}
    if named != set(topics):
        raise OptionsError(f"{option} names the topics {', '.join(sorted(named))}; --topic names {', '.join(topics)}")
    least, words = (
        (LATEST, "or -1 for latest") if option == "--until" else (EARLIEST, "-1 for latest, or -2 for earliest")
    )
    for tp, offset in offsets.items():
        if offset < least:
            raise OptionsError(f"{option}: offset {offset} of {tp} cannot be used there; give one from 0 on, {words}")


def check_partitions(
    offsets: Mapping[TopicPartition, int], partitions: Collection[TopicPartition], *, starting: bool
) -> None:
    """Check that `--from-offsets` or `--until` has an offset for each partition of a topic, and for no other one.

    Raises:
        OptionsError: It has not.
    """
    option = "--from-offsets" if starting else "--until"
    if unknown := offsets.keys() - set(partitions):
        raise OptionsError(f"{option} names {_listed(unknown)}, which does not exist")
    if missing := set(partitions) - offsets.keys():
        ends = "-2 stands for earliest and -1 for latest" if starting else "-1 stands for latest"
        raise OptionsError(f"{option} leaves out {_listed(missing)}: give an offset for every partition; {ends}")


def _listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
