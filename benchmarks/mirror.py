"""Megabytes per second of a mirror, what they cost, and how late records come: beside MirrorMaker 2.

Run from the repository: `python -m benchmarks.mirror [--quick] [--pairs ...] [--parts ...]`.

Source and target are two brokers of Apache Kafka, or two of kafkalog, with their defaults. Each mirror is a process of
its own with its defaults. The one of kafkalog writes transactions, and each record comes once; it runs again with
`--offsets keep`, where records come once at the offsets of the source. MirrorMaker 2 may repeat records after a crash.
Runs take turns (A B A B), and the tables give medians.

- `copy`: a topic of three partitions, uncompressed, in batches of 16 KB, filled before. Time and CPU are taken from
  when the target has a tenth of the records until it has all (MirrorMaker 2: two fifths, which takes it longer), so
  that no start is measured. Bytes are those of record values; CPU and resident memory are those of the mirror's
  process, the memory at the end of that time.
- `decoded`: the same with a topic of LogAppendTime, whose batches a mirror has to write anew.
- `delay`: 1,000 records/s are sent to a topic of one partition. The delay is the time from the call that sends a record
  to its arrival at a consumer of the target, which reads committed records only.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka import Producer as Confluent
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.peers import report
from benchmarks.peers.brokers import NAMES, Broker, running
from benchmarks.peers.processes import cpu_seconds, resident_bytes
from benchmarks.recording.findings import HIGHER, LOWER, OURS, Finding, compared, size
from kafkalog.client.producer import Producer
from peers.brokers import kafka
from peers.process import Process

PEER, KEEPING = "MirrorMaker 2", "kafkalog, offsets kept"
MIRRORS = (OURS, KEEPING, PEER)
APACHE = {PEER: f"MirrorMaker 2 of Kafka {kafka.KAFKA_3}"}
PAIRS = {"apache": NAMES[1], "kafkalog": OURS}
"""The kinds of source and target."""
DECODED = {"message.timestamp.type": "LogAppendTime"}
COPIES = {"copy": {}, "decoded": DECODED}
"""The configurations of the topics that are copied whole, by part."""
PARTS = (*COPIES, "delay")
RECORDS = {100: 4_000_000, 1000: 800_000}
UNTIL = {"MirrorMaker 2": 0.4}
"""The share of the records until which a mirror is measured, where it is not all of them."""
QUICK_SHARE = 8
PARTITIONS = 3
AT_ONCE = 10_000
DEADLINE_S = 240.0
RATE, DELAY_S = 1000, 10
SMALL = 100
TRICKLE = f"{RATE:,} records/s"

Results = dict[str, dict[str, list[float]]]
UNITS: dict[str, tuple[str, str]] = {
    "throughput": ("MB/s", HIGHER),
    "CPU of the mirror for a GB": ("s", LOWER),
    "resident memory of the mirror": ("MB", LOWER),
    "delay, median": ("ms", LOWER),
    "delay, 99th percentile": ("ms", LOWER),
}
"""The unit of each figure, and whether higher or lower ones are better."""


@dataclass(frozen=True)
class Pair:
    """The source and the target of a mirror."""

    name: str
    source: Broker
    target: Broker

    def case(self, what: str, figure: str) -> str:
        """Name a result."""
        return named(what, self.name, figure)


def named(what: str, brokers: str, figure: str) -> str:
    """Name a result: what was done, between which brokers, and what was measured."""
    return f"{what}, between two brokers of {brokers}: {figure}"


def copying(octets: int, part: str = "copy") -> str:
    """Name a copy of records of this size."""
    return f"{part}, {size(octets)}"


class Measured:
    """Collects the figures of each case, by mirror."""

    def __init__(self) -> None:
        self.results: Results = defaultdict(lambda: defaultdict(list))
        self.kinds: dict[str, str] = {}

    def add(self, pair: Pair, mirror: str, what: str, figure: str, value: float) -> None:
        """Add the figure of a run."""
        case = pair.case(what, figure)
        self.kinds[case] = figure
        self.results[case][mirror].append(value)
        told = f"{time.strftime('%X')} {mirror:14} {case:75} {value:,.2f} {UNITS[figure][0]}"
        print(told, file=sys.stderr, flush=True)


FIGURES = {
    **{copying(octets, part): list(UNITS)[:3] for part in COPIES for octets in RECORDS},
    TRICKLE: list(UNITS)[3:],
}
"""The figures of each part."""


# -- mirrors


def command(mirror: str, pair: Pair, topic: str, alias: str, directory: Path) -> list[str]:
    """Return the command of a mirror that calls the source `alias`."""
    if mirror != PEER:
        words = ["mirror", "start", "--source", pair.source.bootstrap, "--target", pair.target.bootstrap]
        words += ["--topics", topic, "--source-alias", alias]
        words += ["--offsets", "keep"] if mirror == KEEPING else []
        return [sys.executable, "-m", "kafkalog.cli.main", *words]
    internal = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    stores = ("offset.storage", "status.storage", "config.storage")
    lines = [
        f"clusters = {alias}, target",
        f"{alias}.bootstrap.servers = {pair.source.bootstrap}",
        f"target.bootstrap.servers = {pair.target.bootstrap}",
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"target->{alias}.enabled = false",
        "replication.factor = 1",
        *(f"{each}.replication.factor = 1" for each in (*internal, *stores)),
    ]
    file = directory / f"{alias}.properties"
    file.write_text("".join(f"{line}\n" for line in lines))
    return kafka.mirror_line(file)


@contextmanager
def mirroring(mirror: str, pair: Pair, topic: str, alias: str) -> Iterator[Process]:
    """Run a mirror of a topic; end it at the end."""
    with TemporaryDirectory(prefix="kafkalog-bench-mirror-") as directory:
        home = Path(directory)
        with Process(command(mirror, pair, topic, alias, home), home / "mirror.log") as process:
            yield process
            if not process.running:
                raise RuntimeError(f"{mirror} ended:\n{process.log.read_text()[-3000:]}")
            process.kill()


# -- parts


def fill(broker: Broker, part: str, octets: int, records: int) -> str:
    """Write a topic for `copy`, and return its name."""
    topic = f"{part}-{octets}"
    broker.create_topic(topic, PARTITIONS, COPIES[part])
    value = b"x" * octets
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for first in range(0, records, AT_ONCE):
            futures = producer.send_values(topic, [value] * min(AT_ONCE, records - first))
        producer.flush()
        for future in futures:
            future.result(DEADLINE_S)
    return topic


def arrived(admin: AdminClient, topic: str) -> int:
    """Count the committed records of a topic; none where it does not exist."""
    latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    found = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    try:
        return sum(int(future.result(DEADLINE_S).offset) for future in found.values())
    except KafkaException:
        return 0


def copy(
    pair: Pair, mirror: str, part: str, topic: str, octets: int, records: int, serial: int, measured: Measured
) -> None:
    """Mirror a whole topic."""
    alias = f"s{serial}"
    remote = f"{alias}.{topic}"
    admin = pair.target.admin()

    def has(share: float) -> Callable[[], bool]:
        return lambda: arrived(admin, remote) >= records * share

    with mirroring(mirror, pair, topic, alias) as process:
        process.wait_until(has(0.1), DEADLINE_S)
        first, began, used = arrived(admin, remote), time.perf_counter(), cpu_seconds(process.pid)
        process.wait_until(has(UNTIL.get(mirror, 1.0)), DEADLINE_S)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(process.pid) - used
        gigabytes = (min(arrived(admin, remote), records) - first) * octets / 1e9
        memory = resident_bytes(process.pid) / 1e6
    pair.target.delete_topic(remote)
    what = copying(octets, part)
    measured.add(pair, mirror, what, "throughput", gigabytes * 1000 / seconds)
    measured.add(pair, mirror, what, "CPU of the mirror for a GB", cpu / gigabytes)
    measured.add(pair, mirror, what, "resident memory of the mirror", memory)


class Receiver:
    """Reads a topic in a thread, and notes how late each record comes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed", "log_level": 2}
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._stop = threading.Event()
        self.delays: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.delays.append(time.perf_counter() - float(message.value() or b"nan"))

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def send(producer: Confluent, topic: str, records: int) -> None:
    """Send records at the rate `RATE`, each with the time when it is sent."""
    began = time.perf_counter()
    for number in range(records):
        while (early := began + number / RATE - time.perf_counter()) > 0:
            producer.poll(early)
        producer.produce(topic, (b"%.6f" % time.perf_counter()).ljust(SMALL), partition=0)
    producer.flush(DEADLINE_S)


def delay(pair: Pair, mirror: str, seconds: int, serial: int, measured: Measured) -> None:
    """Measure how late records come."""
    topic, alias = f"delay-{serial}", f"d{serial}"
    pair.source.create_topic(topic, 1)
    producer = Confluent({"bootstrap.servers": pair.source.bootstrap, "linger.ms": 0, "log_level": 2})
    with mirroring(mirror, pair, topic, alias) as process:
        admin = pair.target.admin()
        process.wait_until(lambda: f"{alias}.{topic}" in admin.list_topics(timeout=10).topics, DEADLINE_S)
        receiver = Receiver(pair.target.bootstrap, f"{alias}.{topic}")
        try:
            # The first records wait for the mirror, and load what it needs.
            send(producer, topic, 2 * RATE)
            process.wait_until(lambda: len(receiver.delays) >= 2 * RATE, DEADLINE_S)
            receiver.delays.clear()
            send(producer, topic, seconds * RATE)
            process.wait_until(lambda: len(receiver.delays) >= seconds * RATE, DEADLINE_S)
        finally:
            receiver.close()
    hundredths = quantiles(receiver.delays, n=100)
    measured.add(pair, mirror, TRICKLE, "delay, median", hundredths[49] * 1000)
    measured.add(pair, mirror, TRICKLE, "delay, 99th percentile", hundredths[98] * 1000)


# -- all of it


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=PAIRS, help="kinds of source and target")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to measure")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(RECORDS), choices=RECORDS, help="of a record")
    parser.add_argument("--mirrors", nargs="+", default=list(MIRRORS), choices=MIRRORS, metavar="NAME")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case with each mirror, in turns")
    parser.add_argument("--quick", action="store_true", help="one run of less: a look, not a measurement")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the results; return them."""
    options = arguments(words)
    if options.quick:
        options.runs = 1
    if PEER in options.mirrors and (reason := kafka.mirror_missing()) is not None:
        sys.exit(f"{PEER} is {reason}")
    measured = Measured()
    for kind in options.pairs:
        name = PAIRS[kind]
        with running([name], options.dir) as (source,), running([name], options.dir) as (target,):
            title = OURS if name == OURS else f"Apache {name}"
            _measure(options, Pair(title, source, target), measured)
    show(measured, options.mirrors)
    return findings(measured)


def _measure(options: argparse.Namespace, pair: Pair, measured: Measured) -> None:
    serials = itertools.count()
    share = QUICK_SHARE if options.quick else 1
    turns = list(itertools.product(range(options.runs), options.mirrors))
    for part, octets in itertools.product((each for each in COPIES if each in options.parts), options.sizes):
        records = RECORDS[octets] // share
        topic = fill(pair.source, part, octets, records)
        for _, mirror in turns:
            copy(pair, mirror, part, topic, octets, records, next(serials), measured)
    for _, mirror in turns if "delay" in options.parts else ():
        delay(pair, mirror, max(DELAY_S // share, 5), next(serials), measured)


def findings(measured: Measured) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, by in measured.results.items():
        unit, better = UNITS[measured.kinds[case]]
        found += compared(case, unit, by, APACHE, better=better)
        found += compared(f"{case}, offsets kept", unit, by, APACHE, better=better, ours=KEEPING)
    return found


def show(measured: Measured, mirrors: Sequence[str]) -> None:
    """Print the table."""
    rows = [
        report.compare(f"{case}, {UNITS[measured.kinds[case]][0]}", {name: by[name] for name in mirrors}, ",.2f")
        for case, by in measured.results.items()
    ]
    ratios = [f"ours / {name}" for name in mirrors if name != OURS]
    print(f"\n{report.table(['case', *mirrors, *ratios], rows)}\n\n{report.machine()}")


if __name__ == "__main__":
    main()
