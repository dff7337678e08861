"""Consume throughput and the broker's CPU per GB, with assigned partitions, from kafkalog and Apache Kafka.

Run from the repository: `python -m benchmarks.consume [--quick]`.

Apache Kafka's ProducerPerformance fills one topic of three partitions per record size on each broker, uncompressed, in
the batches that its defaults make; a first read that is not measured leaves it in the page cache. Three readers read it
from the beginning to the end, with their defaults:

- confluent-kafka: `assign` of all partitions, `consume` in lists of up to 10,000 messages;
- kcat: all partitions, output to /dev/null;
- raw: Fetch requests of 1 MiB, one in flight, the answers thrown away: what the broker can do.

Runs go round the brokers, and the tables give medians. CPU is what the broker's process and its children used, divided
by the bytes of record values.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.peers import raw_fetch, report
from benchmarks.peers.brokers import APACHE, Broker, add_options, running
from benchmarks.produce import TOOL
from benchmarks.recording.findings import LOWER, Finding, compared, size
from peers import kcat
from peers.brokers import kafka

# 500 MB of 100-byte records, 2 GB of 1 KB records
RECORDS = {100: 5_000_000, 1000: 2_000_000}
QUICK_SHARE = 5
PARTITIONS = 3
DEADLINE_S = 600.0


@dataclass(frozen=True)
class Filled:
    """A topic that is read again and again."""

    topic: str
    ends: tuple[int, ...]

    @property
    def records(self) -> int:
        return sum(self.ends)


@dataclass(frozen=True)
class Case:
    reader: str
    record_size: int

    def __str__(self) -> str:
        return f"{self.reader}, {self.record_size} B"


@dataclass(frozen=True)
class Result:
    mb_per_s: float
    records_per_s: float
    cpu_s_per_gb: float


def read_confluent(bootstrap: str, filled: Filled, more: Mapping[str, str] | None = None) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 3,
            **(more or {}),
        }
    )
    try:
        consumer.assign([TopicPartition(filled.topic, p, OFFSET_BEGINNING) for p in range(len(filled.ends))])
        count = 0
        end = time.monotonic() + DEADLINE_S
        while count < filled.records:
            messages = consumer.consume(10_000, timeout=1.0)
            count += len(messages)
            for message in messages[-1:]:
                if message.error():
                    raise RuntimeError(str(message.error()))
            if time.monotonic() > end:
                raise TimeoutError(f"read {count} of {filled.records} records")
    finally:
        consumer.close()


def read_kcat(bootstrap: str, filled: Filled) -> None:
    command = kcat.kcat_line(bootstrap, ["-C", "-q", "-e", "-t", filled.topic, "-o", "beginning"])
    subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=True)


def read_raw(bootstrap: str, filled: Filled) -> None:
    raw_fetch.drain(bootstrap, filled.topic, filled.ends)


READERS: dict[str, Callable[[str, Filled], None]] = {
    "confluent-kafka": read_confluent,
    "kcat": read_kcat,
    "raw": read_raw,
}


def fill(broker: Broker, record_size: int, records: int) -> Filled:
    topic = f"consume-{record_size}"
    broker.create_topic(topic, PARTITIONS)
    args = ["--topic", topic, "--num-records", str(records), "--record-size", str(record_size), "--throughput", "-1"]
    args += ["--bootstrap-server", broker.bootstrap]
    kafka.run_java_tool(TOOL, args, timeout_s=DEADLINE_S)
    filled = Filled(topic, tuple(broker.end_offsets(topic, PARTITIONS)))
    if filled.records != records:
        raise RuntimeError(f"{broker.name} holds {filled.records} records of {records}")
    return filled


def measure(broker: Broker, case: Case, filled: Filled) -> Result:
    """Read everything once."""
    before = broker.cpu_seconds()
    started = time.perf_counter()
    READERS[case.reader](broker.bootstrap, filled)
    spent = time.perf_counter() - started
    cpu = broker.cpu_seconds() - before
    size = filled.records * case.record_size
    return Result(size / 1e6 / spent, filled.records / spent, cpu / (size / 1e9))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--records", type=int, help="records in a topic (default: 500 MB of 100 B, 2 GB of 1 KB)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(RECORDS), help="bytes of a record")
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=READERS)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    options = arguments(words)
    readers = [name for name in options.readers if name != "kcat" or not kcat.missing()]
    if len(readers) < len(options.readers):
        print(f"without kcat: {kcat.missing()}", file=sys.stderr)
    runs = 1 if options.quick else options.runs
    results: dict[Case, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    with running(options.brokers, options.dir, options.override) as brokers:
        for size in options.sizes:
            records = options.records or RECORDS.get(size, 500_000_000 // size)
            records = records // QUICK_SHARE if options.quick else records
            filled = {broker.name: fill(broker, size, records) for broker in brokers}
            for broker in brokers:  # a JVM compiles what it runs often
                read_raw(broker.bootstrap, filled[broker.name])
            for case in (Case(reader, size) for reader in readers):
                for _ in range(runs):
                    for broker in brokers:
                        result = measure(broker, case, filled[broker.name])
                        results[case][broker.name].append(result)
                        print(f"{broker.name:12} {case!s:24} {result}", file=sys.stderr, flush=True)
            for broker in brokers:
                broker.delete_topic(filled[broker.name].topic)
    show(results, options.brokers)
    return findings(results)


def findings(results: Mapping[Case, Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, measured in results.items():
        rates = {name: [each.mb_per_s for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu_s_per_gb for each in taken] for name, taken in measured.items()}
        raw = case.reader == "raw"
        title = f"{size(case.record_size)}, {'fetched and not decoded' if raw else case.reader}"
        found += compared(title, "GB/s" if raw else "MB/s", rates, APACHE, scale=1e-3 if raw else 1)
        found += compared(f"{title}: broker CPU for a GB", "s", costs, APACHE, better=LOWER)
    return found


def show(results: dict[Case, dict[str, list[Result]]], names: list[str]) -> None:
    """Print the tables."""
    figures = (
        ("MB/s", "mb_per_s", ",.0f"),
        ("records/s", "records_per_s", ",.0f"),
        ("broker CPU s per GB", "cpu_s_per_gb", ".2f"),
    )
    print(f"\n{report.by_field(results, names, figures)}")
    print(f"\n{report.machine()}")


if __name__ == "__main__":
    main()
