"""Records per second of consumers, and what they cost: kafkalog's Arrow batches and records beside confluent-kafka.

Run from the repository: `python -m benchmarks.consumer [--quick]`.

One kafkalog broker, one topic of three partitions per record size, uncompressed, filled before. Each reader is a
process of its own that assigns all partitions, reads one record (which loads its kernels), and then everything from the
beginning to the end with its defaults:

- read_arrow: `Consumer.read_arrow` with all columns but headers;
- poll: `Consumer.poll` of up to 10,000 records;
- confluent-kafka: `consume` in lists of up to 10,000 messages;
- … tuned: the same with `fetch.queue.backoff.ms=0` and `queued.min.messages=1000000`: by default it waits a second
  once 100,000 messages of a partition lie in its queue, which is most of the time of a reader of small records.

Runs take turns (A B A B), and the tables give medians. CPU is of the reader's process, all threads, in seconds for a
million records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as Confluent
from confluent_kafka import TopicPartition as ConfluentPartition

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, Broker, running
from benchmarks.recording.findings import LOWER, Finding, compared
from benchmarks.recording.findings import size as named
from kafkalog.client.consumer import Consumer
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition

PARTITIONS = 3
RECORDS = {100: 3_000_000, 1000: 600_000}
QUICK_SHARE = 10
AT_ONCE = 10_000
DEADLINE_S = 600.0
TUNED = {"fetch.queue.backoff.ms": 0, "queued.min.messages": 1_000_000}


def _consumer(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return consumer


def _timed(read: Callable[[], int], records: int) -> dict[str, float]:
    count = 0
    started, used = time.perf_counter(), time.process_time()
    while count < records:
        count += read()
        if time.perf_counter() - started > DEADLINE_S:
            raise TimeoutError(f"read {count} of {records} records")
    return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}


def read_arrow(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    with _consumer(bootstrap, topic) as consumer:
        batches = consumer.read_arrow(timeout=DEADLINE_S)
        next(batches)
        consumer.seek_to_beginning()
        return _timed(lambda: next(batches).num_rows, records)


def read_poll(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    with _consumer(bootstrap, topic) as consumer:
        consumer.poll(DEADLINE_S, 1)
        consumer.seek_to_beginning()
        return _timed(lambda: len(consumer.poll(1.0, AT_ONCE)), records)


def read_confluent(bootstrap: str, topic: str, records: int, tuned: bool = False) -> dict[str, float]:
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 3}
    consumer = Confluent(config | TUNED if tuned else config)
    whole = [ConfluentPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    try:
        consumer.assign(whole)
        consumer.consume(1, timeout=60)
        for partition in whole:
            consumer.seek(partition)
        return _timed(lambda: len(consumer.consume(AT_ONCE, timeout=1.0)), records)
    finally:
        consumer.close()


READERS: dict[str, Callable[[str, str, int], dict[str, float]]] = {
    "read_arrow": read_arrow,
    "poll": read_poll,
    "confluent-kafka": read_confluent,
    "… tuned": partial(read_confluent, tuned=True),
}
PEERS = ("confluent-kafka", "… tuned")


def fill(broker: Broker, size: int, records: int) -> str:
    topic = f"consumer-{size}"
    broker.create_topic(topic, PARTITIONS)
    value = b"x" * size
    with Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 1 << 17}) as producer:
        futures = []
        for first in range(0, records, AT_ONCE):
            futures += producer.send_values(topic, [value] * min(AT_ONCE, records - first))
        for future in futures:
            future.result(DEADLINE_S)
    return topic


def run(reader: str, broker: Broker, topic: str, records: int) -> dict[str, float]:
    """Read once, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.consumer", "--read", reader, broker.bootstrap, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="where the broker keeps its data (default: a temporary directory)")
    parser.add_argument("--read", nargs=4, metavar=("READER", "SERVER", "TOPIC", "RECORDS"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.read:
        reader, bootstrap, topic, count = options.read
        print(json.dumps(READERS[reader](bootstrap, topic, int(count))))
        return []
    rates: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    costs: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with running([OURS], options.dir) as brokers:
        for size, whole in RECORDS.items():
            records = whole // QUICK_SHARE if options.quick else whole
            topic = fill(brokers[0], size, records)
            for _ in range(1 if options.quick else options.runs):
                for reader in READERS:
                    found = run(reader, brokers[0], topic, records)
                    rates[size][reader].append(records / found["seconds"])
                    costs[size][reader].append(found["cpu"] / records * 1e6)
                    print(f"{size} B {reader:16} {rates[size][reader][-1]:,.0f} records/s", file=sys.stderr, flush=True)
    show(rates, costs)
    return findings(rates, costs)


Figures = Mapping[int, Mapping[str, Sequence[float]]]
"""Of each run, by size of a record and reader."""


def findings(rates: Figures, costs: Figures) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for peer, beside in (("confluent-kafka", ""), ("… tuned", ", beside a peer with a longer queue")):
        for reader in ("read_arrow", "poll"):
            for size, measured in rates.items():
                title = f"`{reader}`, {named(size)}{beside}"
                peers = {peer: "confluent-kafka"}
                found += compared(title, "records/s", measured, peers, ours=reader)
                cost = f"{title}: client CPU for a million records"
                found += compared(cost, "s", costs[size], peers, ours=reader, better=LOWER)
    return found


def show(rates: dict[int, dict[str, list[float]]], costs: dict[int, dict[str, list[float]]]) -> None:
    """Print the table."""
    header = ["", *READERS, "read_arrow ÷ confluent-kafka", "÷ … tuned"]
    rows = []
    for size, found in rates.items():
        medians = {reader: median(found[reader]) for reader in READERS}
        ratios = [f"{medians['read_arrow'] / medians[each]:.1f}" for each in PEERS]
        rows.append([f"records/s, {size} B", *(f"{medians[each]:,.0f}" for each in READERS), *ratios])
        spent = {reader: median(costs[size][reader]) for reader in READERS}
        shares = [f"{spent['read_arrow'] / spent[each]:.2f}" for each in PEERS]
        rows.append([f"CPU s per million, {size} B", *(f"{spent[each]:.2f}" for each in READERS), *shares])
    print(f"\n{report.table(header, rows)}\n\n{report.machine()}")


if __name__ == "__main__":
    main()
