"""Records as lines of text, as Kafka's DefaultMessageFormatter writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kafkalog.cli.shared.client_options import UsageError, complain
from kafkalog.records.errors import RecordsError

if TYPE_CHECKING:
    from kafkalog.client.types import ConsumerRecord

Deserializer = Callable[[bytes], bytes]
"""Returns the text of bytes.

Raises:
    ValueError: They are no value of its type.
"""


class UnprintableError(RecordsError):
    """A record that cannot be printed.

    Attributes:
        done: the number of records of the same call that were printed before.
    """

    def __init__(self, message: str, done: int) -> None:
        super().__init__(message)
        self.done = done


def _integer(size: int) -> Deserializer:
    def text(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes are no integer of {size} bytes")
        return b"%d" % int.from_bytes(data, "big", signed=True)

    return text


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ValueError(f"{len(data)} bytes are no boolean: it is one byte, 0 or 1")
    return b"true" if data == b"\1" else b"false"


DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": lambda data: data.decode(errors="replace").encode(),
    "LongDeserializer": _integer(8),
    "IntegerDeserializer": _integer(4),
    "ShortDeserializer": _integer(2),
    "BooleanDeserializer": _boolean,
    "ByteArrayDeserializer": lambda data: data,
}
"""The classes of Kafka whose values can be printed; bytes are printed as they are."""
_PACKAGE = "org.apache.kafka.common.serialization."


@dataclass
class Formatter:
    """Converts records to text, with the properties of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    headers_deserializer: Deserializer | None = None

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Formatter:
        """Make a formatter.

        Raises:
            UsageError: A property is unknown, or a deserializer.
        """
        formatter = cls()
        for key, value in properties.items():
            name = key.replace(".", "_")
            if name not in cls.__dataclass_fields__:
                raise UsageError(f"--property {key}: not known; `kafkalog consume --help` lists the properties")
            if name.endswith("_deserializer"):
                setattr(formatter, name, _deserializer(key, value))
                continue
            is_flag = isinstance(getattr(formatter, name), bool)
            setattr(formatter, name, value.strip().lower() == "true" if is_flag else value.encode())
        return formatter

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; with `skip_errors` continue after one that cannot be written.

        Raises:
            UnprintableError: A record cannot be written; those before it are.
        """
        end = self.line_separator
        columns = self._columns()
        if not columns:
            return
        if columns == [self._value] and self.value_deserializer is None:
            null = self.null_literal
            lines: Iterable[bytes] = [null if record.value is None else record.value for record in records]
            output.write(end.join((*lines, b"")))
            return
        separator = self.key_separator
        for done, record in enumerate(records):
            try:
                line = separator.join([column(record) for column in columns])
            except ValueError as error:
                where = f"{record.topic}-{record.partition} offset {record.offset}"
                if not skip_errors:
                    raise UnprintableError(f"{where}: {error}", done) from None
                complain(f"{where}: {error}")
                continue
            output.write(line + end)

    def _columns(self) -> list[Callable[[ConsumerRecord], bytes]]:
        columns = (
            (self.print_timestamp, self._timestamp),
            (self.print_partition, self._partition),
            (self.print_offset, self._offset),
            (self.print_headers, self._headers),
            (self.print_key, self._key),
            (self.print_value, self._value),
        )
        return [column for wanted, column in columns if wanted]

    def _text(self, data: bytes | None, deserializer: Deserializer | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if deserializer is None else deserializer(data)

    def _timestamp(self, record: ConsumerRecord) -> bytes:
        if record.timestamp < 0:
            return b"NO_TIMESTAMP"
        return b"%b:%d" % (b"LogAppendTime" if record.timestamp_type else b"CreateTime", record.timestamp)

    def _partition(self, record: ConsumerRecord) -> bytes:
        return b"Partition:%d" % record.partition

    def _offset(self, record: ConsumerRecord) -> bytes:
        return b"Offset:%d" % record.offset

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            b"%b:%b" % (name.encode(), self._text(value, self.headers_deserializer)) for name, value in record.headers
        )

    def _key(self, record: ConsumerRecord) -> bytes:
        return self._text(record.key, self.key_deserializer)

    def _value(self, record: ConsumerRecord) -> bytes:
        return self._text(record.value, self.value_deserializer)


def _deserializer(key: str, name: str) -> Deserializer:
    """Return the deserializer of a class of Kafka.

    Raises:
        UsageError: It is not one of those that are here.
    """
    found = DESERIALIZERS.get(name.strip().removeprefix(_PACKAGE))
    if found is None:
        raise UsageError(f"--property {key}={name}: expected one of {', '.join(DESERIALIZERS)} of {_PACKAGE[:-1]}")
    return found
