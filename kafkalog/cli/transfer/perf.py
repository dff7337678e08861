"""`kafkalog perf`: measure producing and consuming; the output is that of kafka-*-perf-test.sh."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_bootstrap,
    add_repeated,
    client_properties,
    complain,
    key_values,
    natural,
    positive,
    reporting,
    sendable,
    warn_unknown,
)

if TYPE_CHECKING:
    from kafkalog.client.fetch.simple_consumer import SimpleConsumer
    from kafkalog.client.producer import BatchFuture, Producer

    _Callback: TypeAlias = Callable[[BatchFuture], object]

EXAMPLES = """\
examples:
  kafkalog perf produce --bootstrap-server localhost:9092 --topic words \\
      --num-records 1000000 --record-size 100 --throughput -1
  kafkalog perf produce --topic words --num-records 100000 --record-size 1000 --throughput 5000 \\
      --producer-props bootstrap.servers=localhost:9092 acks=1 compression.type=lz4
  kafkalog perf consume --bootstrap-server localhost:9092 --topic words --messages 1000000
"""

MIB = 1024 * 1024
WINDOW_S = 5.0
PORTION = 500
PORTION_BYTES = 64 * 1024
"""The most records and bytes that are sent together: few enough that waiting for each other takes them less than the
millisecond in which latencies are counted."""
PORTION_S = 0.001
"""With --throughput, the records of this time are sent together."""
POOL_BYTES = 4 * MIB
POLL_S = 0.1
POLL_RECORDS = 10_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `perf` and its commands."""
    commands = add_command(subparsers, "perf", "measure producing and consuming", EXAMPLES)
    _add_produce(commands)
    _add_consume(commands)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=purpose, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", required=True, type=sendable, metavar="TOPIC", help="the topic")
    return parser


def _add_produce(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "produce", "measure producing: records and bytes per second, and latencies")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", help="brokers to connect to first")
    parser.add_argument("--num-records", type=positive, required=True, metavar="N", help="records to send")
    parser.add_argument(
        "--throughput", type=float, required=True, metavar="N", help="records per second at most; -1 for no limit"
    )
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=natural, metavar="BYTES", help="send random letters of this length")
    payload.add_argument("--payload-file", type=Path, metavar="FILE", help="send random pieces of this file")
    payload.add_argument("--payload-monotonic", action="store_true", help="send 0, 1, 2, …")
    parser.add_argument(
        "--payload-delimiter", default="\\n", metavar="TEXT", help="separates the pieces of the file (\\n)"
    )
    parser.add_argument(
        "--producer-props",
        "--command-property",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="properties of the producer",
    )
    parser.add_argument(
        "--producer.config",
        "--command-config",
        dest="producer_config",
        metavar="FILE",
        help="a file of producer properties",
    )
    parser.set_defaults(run=run_produce)


def _add_consume(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "consume", "measure consuming: records and bytes per second")
    add_bootstrap(parser)
    parser.add_argument(
        "--messages",
        "--num-records",
        type=positive,
        required=True,
        metavar="N",
        help="the least number of records to read",
    )
    parser.add_argument("--from-latest", action="store_true", help="read only records that come from now on")
    parser.add_argument(
        "--fetch-size", type=positive, default=MIB, metavar="BYTES", help="bytes of a partition to fetch at a time"
    )
    parser.add_argument("--socket-buffer-size", type=positive, default=2 * MIB, metavar="BYTES", help="receive buffer")
    parser.add_argument(
        "--timeout", type=natural, default=10_000, metavar="MS", help="give up when no record comes for this long"
    )
    parser.add_argument("--show-detailed-stats", action="store_true", help="print a line every interval, no total")
    parser.add_argument("--reporting-interval", type=positive, default=5000, metavar="MS", help="the interval")
    parser.add_argument("--hide-header", action="store_true", help="leave out the line of column names")
    parser.add_argument(
        "--consumer.config",
        "--command-config",
        dest="consumer_config",
        metavar="FILE",
        help="a file of consumer properties",
    )
    add_repeated(parser, "--command-property", metavar="KEY=VALUE", purpose="a property of the consumer")
    parser.set_defaults(run=run_consume)


# produce


@reporting
def run_produce(arguments: argparse.Namespace) -> int:
    """Send records and print the time that it took; return 1 if some were not delivered."""
    from kafkalog.client.producer import Producer, ProducerConfig

    more = key_values(arguments.producer_props, "--producer-props")
    if arguments.bootstrap_server is None:
        arguments.bootstrap_server = more.get("bootstrap.servers", "")
    properties = client_properties(arguments, arguments.producer_config, more)
    properties.setdefault("client.id", "perf-producer-client")
    config = ProducerConfig.from_dict(properties)
    warn_unknown(config.unknown)
    portions = _portions(arguments)
    stats = ProduceStats()
    with Producer(config) as producer:
        producer.partitions_for(arguments.topic)
        stats.begin()
        _send_all(producer, arguments.topic, portions, arguments.throughput, stats)
        producer.flush()
    stats.print_total()
    return int(stats.failed > 0)


def _send_all(
    producer: Producer, topic: str, portions: Iterator[list[bytes]], throughput: float, stats: ProduceStats
) -> None:
    begin = time.monotonic()
    sent = 0
    for values in portions:
        now = time.monotonic()
        if throughput > 0 and (ahead := sent / throughput - (now - begin)) > 0:
            time.sleep(ahead)
            now = time.monotonic()
        start = 0
        for future in producer.send_values(topic, values):
            size = sum(map(len, values[start : start + future.count]))
            start += future.count
            future.add_done_callback(stats.callback(now, size))
        sent += len(values)


def _portions(arguments: argparse.Namespace) -> Iterator[list[bytes]]:
    """Yield portions of values to send.

    Raises:
        UsageError: The payload file has no values.
    """
    if arguments.payload_file is not None:
        pool, size = _pieces(arguments.payload_file, arguments.payload_delimiter)
    elif arguments.record_size is not None:
        size = arguments.record_size
        pool = _random_values(size)
    else:
        pool, size = [], 8
    portion = max(1, min(PORTION, PORTION_BYTES // max(size, 1)))
    if arguments.throughput > 0:
        portion = max(1, int(min(portion, arguments.throughput * PORTION_S)))
    return _take(pool, arguments.num_records, portion)


def _take(pool: Sequence[bytes], total: int, portion: int) -> Iterator[list[bytes]]:
    """Yield portions of values of the pool (or of the numbers from 0 on, if it is empty), `total` in all."""
    from random import Random

    chance = Random(0)
    for start in range(0, total, portion):
        count = min(portion, total - start)
        if pool:
            yield chance.choices(pool, k=count)
        else:
            yield [b"%d" % n for n in range(start, start + count)]


def _random_values(size: int) -> list[bytes]:
    """Return a pool of values of `size` random letters."""
    from random import Random

    count = max(1, min(10_000, POOL_BYTES // max(size, 1)))
    letters = bytes(65 + byte % 26 for byte in range(256))
    data = Random(0).randbytes(count * size).translate(letters)
    return [data[at * size : (at + 1) * size] for at in range(count)]


def _pieces(file: Path, delimiter: str) -> tuple[list[bytes], int]:
    """Return the pieces of a file, and their average length."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"--payload-file {file}: {error.strerror}") from error
    separator = delimiter.replace("\\n", "\n").encode()
    if not separator:
        raise UsageError("--payload-delimiter must not be empty")
    pieces = data.removesuffix(separator).split(separator)
    if not data:
        raise UsageError(f"--payload-file {file}: is empty")
    return pieces, len(data) // len(pieces)


class ProduceStats:
    """Deliveries and their latencies; fed from the producer's thread."""

    def __init__(self) -> None:
        self.failed = 0
        self._lock = threading.Lock()
        self._latencies: Counter[int] = Counter()
        self._bytes = 0
        self._window: Counter[int] = Counter()
        self._window_bytes = 0
        self.begin()

    def begin(self) -> None:
        """Start the clock."""
        self._begun = self._window_begun = time.monotonic()

    def callback(self, sent: float, size: int) -> _Callback:
        """Return the delivery callback of records sent at `sent` (`time.monotonic`), which have `size` bytes."""
        return lambda future: self._delivered(future, sent, size)

    def _delivered(self, future: BatchFuture, sent: float, size: int) -> None:
        failures = future.failures()
        now = time.monotonic()
        with self._lock:
            if failures:
                if not self.failed:
                    complain(failures[0][1])
                self.failed += len(failures)
                size = size * (future.count - len(failures)) // future.count
            count = future.count - len(failures)
            latency = int((now - sent) * 1000)
            self._window[latency] += count
            self._window_bytes += size
            if now - self._window_begun >= WINDOW_S:
                self._print_window(now)

    def _print_window(self, now: float) -> None:
        records, average, most = _summary(self._window)
        elapsed = now - self._window_begun
        if records:
            print(
                f"{records} records sent, {records / elapsed:.1f} records/sec "
                f"({self._window_bytes / elapsed / MIB:.2f} MB/sec), {average:.1f} ms avg latency, "
                f"{most:.1f} ms max latency.",
                flush=True,
            )
        self._close_window(now)

    def _close_window(self, now: float) -> None:
        self._latencies += self._window
        self._bytes += self._window_bytes
        self._window = Counter()
        self._window_bytes = 0
        self._window_begun = now

    def print_total(self) -> None:
        """Print the line about the whole run."""
        now = time.monotonic()
        with self._lock:
            self._close_window(now)
        elapsed = now - self._begun
        records, average, most = _summary(self._latencies)
        half, most_95, most_99, most_999 = _percentiles(self._latencies, (0.5, 0.95, 0.99, 0.999))
        print(
            f"{records} records sent, {records / elapsed:f} records/sec ({self._bytes / elapsed / MIB:.2f} MB/sec), "
            f"{average:.2f} ms avg latency, {most:.2f} ms max latency, {half} ms 50th, {most_95} ms 95th, "
            f"{most_99} ms 99th, {most_999} ms 99.9th."
        )
        if self.failed:
            complain(f"{self.failed} records were not delivered")


def _summary(latencies: Counter[int]) -> tuple[int, float, float]:
    """Return the count, average and maximum of the latencies."""
    count = latencies.total()
    total = sum(latency * times for latency, times in latencies.items())
    return count, total / max(count, 1), float(max(latencies, default=0))


def _percentiles(latencies: Counter[int], shares: Sequence[float]) -> list[int]:
    """Return the latency at each share of all, in the order of the shares."""
    total = latencies.total()
    found = []
    for share in shares:
        place = int(share * total)
        passed = 0
        answer = 0
        for answer in sorted(latencies):
            passed += latencies[answer]
            if passed > place:
                break
        found.append(answer)
    return found


# consume


@reporting
def run_consume(arguments: argparse.Namespace) -> int:
    """Read records and print the time that it took; return 1 if there were fewer than requested."""
    from kafkalog.client.cluster import Cluster
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.fetch.simple_consumer import SimpleConsumer
    from kafkalog.client.types import TopicPartition

    properties = client_properties(
        arguments, arguments.consumer_config, key_values(arguments.command_property, "--command-property")
    )
    properties.setdefault("client.id", "perf-consumer-client")
    properties["max.partition.fetch.bytes"] = str(arguments.fetch_size)
    properties["receive.buffer.bytes"] = str(arguments.socket_buffer_size)
    properties["auto.offset.reset"] = "latest" if arguments.from_latest else "earliest"
    # Kafka's tool does the same.
    properties["check.crcs"] = "false"
    config = ClientConfig.from_dict(properties)
    warn_unknown(config.unknown)
    with Cluster(config) as cluster, SimpleConsumer(config, cluster=cluster) as consumer:
        consumer.assign(TopicPartition(arguments.topic, number) for number in cluster.partitions(arguments.topic))
        if arguments.from_latest:
            consumer.seek_to_end()
        return _measure(arguments, consumer)


def _measure(arguments: argparse.Namespace, consumer: SimpleConsumer) -> int:
    detailed: bool = arguments.show_detailed_stats
    if not arguments.hide_header:
        print(
            f"{'time, threadId' if detailed else 'start.time, end.time'}, data.consumed.in.MB, MB.sec, "
            "data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
            flush=True,
        )
    begun_at = time.time()
    begun = last_report = last_record = time.monotonic()
    count = size = last_count = last_size = 0
    while count < arguments.messages:
        records = consumer.poll(POLL_S, POLL_RECORDS)
        now = time.monotonic()
        if records:
            last_record = now
            count += len(records)
            for record in records:
                size += len(record.value or b"") + len(record.key or b"")
        elif (now - last_record) * 1000 > arguments.timeout:
            print(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({arguments.timeout} ms) exceeded. You can use the --timeout option to increase the timeout.",
                file=sys.stderr,
            )
            break
        if (now - last_report) * 1000 >= arguments.reporting_interval:
            if detailed:
                columns = _rates(count, size, count - last_count, size - last_size, now - last_report)
                print(f"{_date(time.time())}, 0, {columns}", flush=True)
            last_report, last_count, last_size = now, count, size
    elapsed = max(time.monotonic() - begun, 1e-9)
    if not detailed:
        print(f"{_date(begun_at)}, {_date(begun_at + elapsed)}, {_rates(count, size, count, size, elapsed)}")
    return int(count < arguments.messages)


def _rates(count: int, size: int, new_count: int, new_size: int, elapsed: float) -> str:
    """Return the columns from data.consumed.in.MB on. Without a group there is no rebalancing: all time is fetching."""
    rates = f"{new_size / MIB / elapsed:.4f}", f"{new_count / elapsed:.4f}"
    return f"{size / MIB:.4f}, {rates[0]}, {count}, {rates[1]}, 0, {elapsed * 1000:.0f}, {rates[0]}, {rates[1]}"


def _date(seconds: float) -> str:
    """Format a time as yyyy-MM-dd HH:mm:ss:SSS."""
    millis = int(seconds * 1000)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(millis // 1000)) + f":{millis % 1000:03d}"
