"""Records as lines of text, as Kafka's DefaultMessageFormatter writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kafkalog.cli.shared.client_options import UsageError, complain

if TYPE_CHECKING:
    from kafkalog.client.types import ConsumerRecord


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

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Formatter:
        """Make a formatter.

        Raises:
            UsageError: A property is unknown.
        """
        formatter = cls()
        for key, value in properties.items():
            name = key.replace(".", "_")
            if name not in cls.__dataclass_fields__:
                raise UsageError(f"--property {key}: not known; `kafkalog consume --help` lists the properties")
            is_flag = isinstance(getattr(formatter, name), bool)
            setattr(formatter, name, value.strip().lower() == "true" if is_flag else value.encode())
        return formatter

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; with `skip_errors` continue after one that cannot be written."""
        end = self.line_separator
        columns = self._columns()
        if not columns:
            return
        if columns == [self._value]:
            null = self.null_literal
            lines: Iterable[bytes] = [null if record.value is None else record.value for record in records]
            output.write(end.join((*lines, b"")))
            return
        separator = self.key_separator
        for record in records:
            try:
                line = separator.join([column(record) for column in columns])
            except ValueError as error:
                if not skip_errors:
                    raise
                complain(f"{record.topic}-{record.partition} offset {record.offset}: {error}")
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

    def _nullable(self, data: bytes | None) -> bytes:
        return self.null_literal if data is None else data

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
            b"%b:%b" % (name.encode(), self._nullable(value)) for name, value in record.headers
        )

    def _key(self, record: ConsumerRecord) -> bytes:
        return self._nullable(record.key)

    def _value(self, record: ConsumerRecord) -> bytes:
        return self._nullable(record.value)
