"""The classes of Kafka that `--formatter` of `kafkalog consume` names: they write records as text.

Those of the internal topics write one JSON object a line. Kafka's classes write the same objects without line ends.
For a key of an unknown kind, `"unknown"` stands in place of the content of key and value. Kafka's classes would read
the value as if it were of their own kind, and mostly end with an error.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from kafkalog.cli.shared.client_options import complain
from kafkalog.cli.shared.formatter import Formatter, UnprintableError, timestamp_text, write_each

if TYPE_CHECKING:
    from kafkalog.client.types import ConsumerRecord
    from kafkalog.protocol.schema import Message, Struct

UNKNOWN = "unknown"
_VERSION_SIZE = 2


class MessageFormatter(Protocol):
    """Writes records as text."""

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; with `skip_errors` continue after one that cannot be written.

        Raises:
            UnprintableError: A record cannot be written; those before it are.
        """


class NoOpFormatter:
    """Writes nothing; records are only read and counted."""

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write nothing."""


class LoggingFormatter:
    """Writes records as `formatter` does, and each also to standard error, in place of Kafka's log."""

    def __init__(self, formatter: Formatter) -> None:
        self._formatter = formatter

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; see `MessageFormatter.write` for errors."""
        written = len(records)
        try:
            self._formatter.write(records, output, skip_errors=skip_errors)
        except UnprintableError as error:
            written = error.done
            raise
        finally:
            for record in records[:written]:
                complain(_logged(record))


def _logged(record: ConsumerRecord) -> str:
    timestamp = timestamp_text(record)
    when = "" if timestamp is None else f"{timestamp.decode()}, "
    key = "null " if record.key is None else f"{record.key.decode(errors='replace')}, "
    value = "null" if record.value is None else record.value.decode(errors="replace")
    return f"{when}key:{key}value:{value}"


class _Kind(NamedTuple):
    """The records of an internal topic that a formatter writes."""

    key: type[Message]
    value: type[Message]
    left_out: type[Message] | None = None
    """The keys of other records of the topic, which are not written."""


class StoredFormatter:
    """Writes the records that coordinators store, as JSON."""

    def __init__(self, kind: _Kind) -> None:
        self._kind = kind

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; see `MessageFormatter.write` for errors."""
        write_each(records, self._line, output, skip_errors=skip_errors)

    def _line(self, record: ConsumerRecord) -> bytes | None:
        """Return a record's line.

        Raises:
            ValueError: The key or the value is cut short.
        """
        kind = self._kind
        known = True
        if record.key is not None:
            version = _version(record.key)
            if kind.left_out is not None and _has(kind.left_out, version):
                return None
            known = _has(kind.key, version)
        row = {
            "key": _content(kind.key if known else None, record.key),
            "value": _content(kind.value if known else None, record.value),
        }
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _version(data: bytes) -> int:
    if len(data) < _VERSION_SIZE:
        raise ValueError(f"{len(data)} bytes have no version")
    return int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)


def _has(cls: type[Message], version: int) -> bool:
    return cls.min_version <= version <= cls.max_version


def _content(cls: type[Message] | None, data: bytes | None) -> dict[str, Any] | None:
    """Return the version and the fields of a key or a value; without a class, or in a later version, no fields."""
    from kafkalog.protocol.codec import ProtocolError, decode_message

    if data is None:
        return None
    version = _version(data)
    if cls is None or not _has(cls, version):
        return {"version": version, "data": UNKNOWN}
    try:
        message, _ = decode_message(cls, version, data, _VERSION_SIZE)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    return {"version": version, "data": _fields(message, version)}


def _fields(struct: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a structure under Kafka's names; tagged ones only where they differ from their default."""
    found = {}
    for field in struct.fields:
        value = getattr(struct, field.name)
        if version in field.versions and not (version in field.tagged and value == field.default):
            head, *tail = field.name.split("_")
            found[head + "".join(map(str.capitalize, tail))] = _value(value, version)
    return found


def _value(value: Any, version: int) -> Any:
    from kafkalog.protocol.schema import Struct

    if isinstance(value, Struct):
        return _fields(value, version)
    if isinstance(value, list):
        return [_value(each, version) for each in value]
    return b64encode(value).decode() if isinstance(value, bytes) else value


_TOOLS = "org.apache.kafka.tools.consumer."
_NAMES = {
    "default": (f"{_TOOLS}DefaultMessageFormatter", "kafka.tools.DefaultMessageFormatter"),
    "logging": (f"{_TOOLS}LoggingMessageFormatter", "kafka.tools.LoggingMessageFormatter"),
    "noop": (f"{_TOOLS}NoOpMessageFormatter", "kafka.tools.NoOpMessageFormatter"),
    "offsets": (
        f"{_TOOLS}OffsetsMessageFormatter",
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
    ),
    "groups": (
        f"{_TOOLS}GroupMetadataMessageFormatter",
        "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
    ),
    "transactions": (
        f"{_TOOLS}TransactionLogMessageFormatter",
        "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
    ),
}
"""The names of Kafka's classes, the present one first."""
FORMATTERS: Sequence[str] = [name for names in _NAMES.values() for name in names]


def make_formatter(name: str, properties: dict[str, str]) -> MessageFormatter:
    """Make the formatter of one of `FORMATTERS`, with the properties of the output.

    Raises:
        UsageError: A property is unknown, or a deserializer.
    """
    from kafkalog.protocol import coordinator_records as stored

    (kind,) = (kind for kind, names in _NAMES.items() if name in names)
    if kind == "default":
        return Formatter.from_properties(properties)
    if kind == "logging":
        return LoggingFormatter(Formatter.from_properties(properties))
    if properties:
        complain(f"the properties of the output have no effect with {name.rpartition('.')[2]}")
    if kind == "noop":
        return NoOpFormatter()
    kinds = {
        "offsets": _Kind(stored.OffsetCommitKey, stored.OffsetCommitValue, stored.GroupMetadataKey),
        "groups": _Kind(stored.GroupMetadataKey, stored.GroupMetadataValue, stored.OffsetCommitKey),
        "transactions": _Kind(stored.TransactionLogKey, stored.TransactionLogValue),
    }
    return StoredFormatter(kinds[kind])
