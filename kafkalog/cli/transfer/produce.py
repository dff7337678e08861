"""`kafkalog produce`: write the lines of standard input to a topic, as kafka-console-producer.sh does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import (
    UsageError,
    add_bootstrap,
    add_repeated,
    client_properties,
    complain,
    key_values,
    reporting,
    sendable,
    warn_unknown,
)
from kafkalog.cli.shared.interruptible import InterruptedCommand, Interruption, read_interruptibly

if TYPE_CHECKING:
    from kafkalog.client.producer import BatchFuture, DeliveryFuture, Producer, ProducerConfig

EXAMPLES = """\
examples:
  kafkalog produce --bootstrap-server localhost:9092 --topic words < words.txt
  printf 'k1:v1\\nk2:v2\\n' | kafkalog produce --bootstrap-server localhost:9092 --topic words \\
      --property parse.key=true --property key.separator=:
  kafkalog produce --bootstrap-server localhost:9092 --topic words --compression-codec zstd < words.txt

properties of the line reader (--property KEY=VALUE):
  parse.key=false          a line is KEY, key.separator, VALUE
  parse.headers=false      a line begins with KEY:VALUE,KEY:VALUE and headers.delimiter
  key.separator=TAB  headers.delimiter=TAB  headers.separator=,  headers.key.separator=:
  null.marker=             a key, value or header value that equals it is null; nothing does unless it is set
  ignore.error=false       take a line whose separators are missing as a value, instead of stopping there

Exit code 1: some records were not delivered. SIGINT and SIGTERM end the input: what was read is delivered.
With --producer-property transactional.id=ID all of the input is one transaction, which they abort.
"""

READ_SIZE = 1 << 20
MAX_PRINTED_ERRORS = 5
"""The most failures that are printed; further ones are counted."""

_OPTIONS = {
    "request_required_acks": "acks",
    "batch_size": "batch.size",
    "max_partition_memory_bytes": "batch.size",
    "timeout": "linger.ms",
    "request_timeout_ms": "request.timeout.ms",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "max_memory_bytes": "buffer.memory",
    "max_block_ms": "max.block.ms",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "socket_buffer_size": "send.buffer.bytes",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `produce`."""
    parser = subparsers.add_parser(
        "produce",
        help="write lines of standard input to a topic",
        description="Write each line of standard input to a topic as a record.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_bootstrap(parser)
    parser.add_argument("--topic", required=True, type=sendable, metavar="TOPIC", help="the topic to write to")
    add_repeated(
        parser, "--property", "--reader-property", metavar="KEY=VALUE", purpose="how lines are read, see below"
    )
    parser.add_argument("--reader-config", metavar="FILE", help="a file of properties of the line reader")
    add_repeated(
        parser, "--producer-property", "--command-property", metavar="KEY=VALUE", purpose="a property of the producer"
    )
    parser.add_argument(
        "--producer.config",
        "--command-config",
        dest="producer_config",
        metavar="FILE",
        help="a file of producer properties",
    )
    parser.add_argument(
        "--sync", action="store_true", help="wait for every record before the next is sent; stop at one that fails"
    )
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        metavar="CODEC",
        help="none, gzip (without CODEC), snappy, lz4 or zstd",
    )
    settings = parser.add_argument_group("the producer's settings under other names")
    for name, key in _OPTIONS.items():
        settings.add_argument(f"--{name.replace('_', '-')}", metavar="N", help=key)
    parser.set_defaults(run=run_produce)


@reporting
def run_produce(arguments: argparse.Namespace) -> int:
    """Send every line; return 1 if some were not delivered, 130 or 143 after SIGINT or SIGTERM."""
    from kafkalog.client.producer import ProducerConfig

    reader = LineReader.from_properties(_reader_properties(arguments))
    config = ProducerConfig.from_dict(_producer_properties(arguments))
    warn_unknown(config.unknown)
    outcome = Deliveries(arguments.topic)
    failed = 0
    with Interruption() as interruption:
        try:
            _produce(arguments, config, reader, outcome, interruption)
        except InterruptedCommand:
            # A second signal, or one that came while the last records were delivered.
            outcome.report_unknown()
        finally:
            # Report even if the transaction has failed: the records' errors say why.
            failed = outcome.report()
    return interruption.exit_code or failed


def _produce(
    arguments: argparse.Namespace,
    config: ProducerConfig,
    reader: LineReader,
    outcome: Deliveries,
    interruption: Interruption,
) -> None:
    """Send all lines, or those before a signal; in a transaction, then commit or abort it."""
    from kafkalog.client.producer import Producer

    with Producer(config) as producer:
        if config.transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        try:
            _send_all(arguments, producer, reader, outcome, interruption, config.max_request_size)
        except InterruptedCommand:
            # Lines that were read before the signal are still delivered.
            pass
        except LineError as error:
            complain(error)
            outcome.stopped = True
        cut_short = bool(interruption.exit_code) or outcome.stopped
        # Closing the producer aborts a transaction that was cut short.
        if config.transactional_id is not None and not cut_short:
            producer.commit_transaction()
    if config.transactional_id is not None and cut_short:
        complain(f"the transaction was aborted: {outcome.sent} records are not committed")


def _reader_properties(arguments: argparse.Namespace) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.reader_config is not None:
        found = client_properties(arguments, arguments.reader_config)
        del found["bootstrap.servers"]
    return {**found, **key_values(arguments.property, "--property")}


def _producer_properties(arguments: argparse.Namespace) -> dict[str, str]:
    more = key_values(arguments.producer_property, "--producer-property")
    for name, key in _OPTIONS.items():
        value = getattr(arguments, name)
        if value is not None:
            more[key] = value
    if arguments.compression_codec is not None:
        more["compression.type"] = arguments.compression_codec
    properties = client_properties(arguments, arguments.producer_config, more)
    for key in ("key.serializer", "value.serializer"):
        # Properties files for Java's producer always name serializers; here lines are bytes.
        properties.pop(key, None)
    properties.setdefault("client.id", "console-producer")
    return properties


class Deliveries:
    """Counts of delivered and failed records."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._failed = 0
        self._told = 0
        self._known = 0
        self.sent = 0
        self.stopped = False

    def note(self, future: DeliveryFuture) -> None:
        """Count how a delivery ended; called on the producer's thread."""
        self._known += 1
        error = future.exception()
        if error is not None:
            self._count(error, 1)

    def note_many(self, future: BatchFuture) -> None:
        """Count how several deliveries ended."""
        self._known += future.count
        failures = future.failures()
        if failures:
            self._count(failures[0][1], len(failures))

    def _count(self, error: Exception, count: int) -> None:
        self._failed += count
        self._told += 1
        if self._told <= MAX_PRINTED_ERRORS:
            complain(f"sending to {self._topic}: {error}")

    def report_unknown(self) -> None:
        """Report how many records may not have been delivered."""
        if self.sent > self._known:
            complain(f"{self.sent - self._known} records may not have been delivered")

    def report(self) -> int:
        """Print how many failed; return the exit code."""
        if self._failed:
            complain(f"{self._failed} records were not delivered")
        return int(bool(self._failed) or self.stopped)


class LineError(ValueError):
    """A line that is not a valid record."""


def _send_all(
    arguments: argparse.Namespace,
    producer: Producer,
    reader: LineReader,
    outcome: Deliveries,
    interruption: Interruption,
    max_size: int,
) -> None:
    topic = arguments.topic
    # Read no line before the topic is known to exist: a line that was read must be sent.
    producer.partitions_for(topic)
    for lines in read_lines(sys.stdin.fileno(), max_size):
        # A signal waits until all lines that were read are sent.
        with interruption.held():
            if reader.plain and not arguments.sync and max(map(len, lines)) < max_size - 100:
                outcome.sent += len(lines)
                for futures in producer.send_values(topic, lines):
                    futures.add_done_callback(outcome.note_many)
                continue
            for line in lines:
                value, key, headers = reader.parse(line)
                outcome.sent += 1
                future = producer.send(topic, value, key, headers)
                outcome.stopped = arguments.sync and future.exception() is not None
                future.add_done_callback(outcome.note)
                if outcome.stopped:
                    return


def read_lines(descriptor: int, max_size: int) -> Iterator[list[bytes]]:
    r"""Yield lines as they arrive, many at a time, without their ends: `\n`, `\r\n` or `\r`, as for Kafka's reader.

    Of a line that is longer than `max_size`, so much is yielded that the producer refuses the record.
    """
    prompt = os.isatty(descriptor)
    rest: list[bytes] = []
    kept = 0
    held = b""
    while True:
        if prompt and not rest:
            print(">", end="", flush=True)
        data = read_interruptibly(descriptor, READ_SIZE)
        if not data:
            break
        if held or b"\r" in data:
            data = held + data
            # What comes next may be the second half of this line end.
            held = b"\r" if data.endswith(b"\r") else b""
            data = data.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            if kept <= max_size:
                rest.append(data)
                kept += len(data)
            continue
        yield b"".join((*rest, head)).split(b"\n")
        rest = [tail] if tail else []
        kept = len(tail)
    if rest or held:
        yield [b"".join(rest)]


@dataclass
class LineReader:
    """Converts lines to records, with the properties of Kafka's LineMessageReader."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False
    line_number: int = 0

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> LineReader:
        """Make a reader.

        Raises:
            UsageError: A property is unknown or empty, or two of them are not distinct.
        """
        reader = cls()
        for key, value in properties.items():
            name = key.replace(".", "_")
            if name not in cls.__dataclass_fields__ or name == "line_number":
                raise UsageError(f"--property {key}: not known; `kafkalog produce --help` lists the properties")
            if isinstance(getattr(reader, name), bool):
                setattr(reader, name, value.strip().lower() == "true")
            elif not value and name != "null_marker":
                raise UsageError(f"--property {key}: must not be empty")
            else:
                setattr(reader, name, value.encode())
        reader._check()
        return reader

    def _check(self) -> None:
        separators = {
            "null.marker": self.null_marker,
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        names = list(separators)
        pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
        for one, other in pairs:
            if separators[one] == separators[other]:
                raise UsageError(f"{one} and {other} may not be equal")
        if self.null_marker == self.key_separator:
            raise UsageError("null.marker and key.separator may not be equal")

    @property
    def plain(self) -> bool:
        """Return whether every line is a value without key and headers."""
        return not self.parse_key and not self.parse_headers and self.null_marker is None

    def parse(self, line: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
        """Return value, key and headers of a line.

        Raises:
            LineError: A separator is missing.
        """
        self.line_number += 1
        headers, rest = self._cut(self.parse_headers, line, self.headers_delimiter, "headers delimiter")
        key, value = self._cut(self.parse_key, rest, self.key_separator, "key separator")
        pairs: tuple[tuple[str, bytes | None], ...] = ()
        if headers is not None and headers != self.null_marker:
            pairs = tuple(map(self._header, self._pairs(headers)))
        return self._nullable(value), None if key is None else self._nullable(key), pairs

    def _cut(self, enabled: bool, text: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        if not enabled:
            return None, text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        shown = text[:80].decode(errors="replace")
        raise LineError(f"no {name} found in line {self.line_number}: '{shown}'; ignore.error=true takes it as a value")

    def _pairs(self, headers: bytes) -> list[bytes]:
        """Return the headers of a line. Java's `split` leaves out empty ones at the end, unless there is no other."""
        found = headers.split(self.headers_separator)
        while len(found) > 1 and not found[-1]:
            found.pop()
        return [] if found == [b""] and headers else found

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self.headers_key_separator)
        if key == self.null_marker:
            raise LineError(f"the key of a header in line {self.line_number} is the null.marker")
        try:
            name = key.decode()
        except UnicodeDecodeError:
            raise LineError(f"the key of a header in line {self.line_number} is not UTF-8") from None
        if found:
            return name, self._nullable(value)
        if self.ignore_error:
            return name, None
        raise LineError(f"no header key separator found in '{name}' in line {self.line_number}")

    def _nullable(self, data: bytes) -> bytes | None:
        return None if data == self.null_marker else data
