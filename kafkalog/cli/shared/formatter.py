"""Records as lines of text, as Kafka's DefaultMessageFormatter writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kafkalog.cli.shared.client_options import UsageError, complain
from kafkalog.cli.shared.deserializers import Deserializer, find_deserializer
from kafkalog.records.errors import RecordsError

if TYPE_CHECKING:
    from kafkalog.client.types import ConsumerRecord


class UnprintableError(RecordsError):
    """A record that cannot be printed.

    Attributes:
        done: the number of records of the same call that were printed before.
    """

    def __init__(self, message: str, done: int) -> None:
        super().__init__(message)
        self.done = done


Line = Callable[["ConsumerRecord"], bytes | None]
"""Returns the text of a record; None for none.

Raises:
    ValueError: The record cannot be printed.
"""


def write_each(records: Iterable[ConsumerRecord], line: Line, output: BinaryIO, *, skip_errors: bool) -> None:
    """Write the text of each record; with `skip_errors` continue after one that cannot be written.

    Raises:
        UnprintableError: A record cannot be written; those before it are.
    """
    for done, record in enumerate(records):
        try:
            text = line(record)
        except ValueError as error:
            where = f"{record.topic}-{record.partition} offset {record.offset}"
            if not skip_errors:
                raise UnprintableError(f"{where}: {error}", done) from None
            complain(f"{where}: {error}")
            continue
        if text is not None:
            output.write(text)


def timestamp_text(record: ConsumerRecord) -> bytes | None:
    """Return the kind of a record's timestamp, and the timestamp; None if it has none."""
    if record.timestamp < 0:
        return None
    return b"%b:%d" % (b"LogAppendTime" if record.timestamp_type else b"CreateTime", record.timestamp)


_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")


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
            if any(key.startswith(f"{each}.") and each in properties for each in _DESERIALIZERS):
                # A property of the deserializer.
                continue
            if name not in cls.__dataclass_fields__:
                raise UsageError(f"--property {key}: not known; `kafkalog consume --help` lists the properties")
            if name.endswith("_deserializer"):
                start = f"{key}."
                own = {each.removeprefix(start): text for each, text in properties.items() if each.startswith(start)}
                setattr(formatter, name, find_deserializer(key, value, own))
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
        write_each(
            records,
            lambda record: separator.join([column(record) for column in columns]) + end,
            output,
            skip_errors=skip_errors,
        )

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
        return timestamp_text(record) or b"NO_TIMESTAMP"

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
