"""The throughput of Python producers, and the client's CPU: kafkalog, confluent-kafka and kafka-python.

Run from the repository: `python -m benchmarks.producer_client [--quick]`.

One kafkalog broker with its defaults, a new topic of three partitions for every run. Each producer has its own defaults
but for acks=all, and sends records of 100-byte values, without keys and with keys of 8 to 12 bytes:

- `send`: one call a record (kafkalog `send`, confluent-kafka `produce` with a `poll` every 1,000 records,
  kafka-python `send`), no callbacks;
- `many`: kafkalog's calls for many records: `send_values` of lists of 10,000 (without keys), and `send_arrow` of
  tables of 100,000 rows; the peers have no such call, and are compared with their `send`.

Runs go round the producers (A B C A B C), and the tables give medians. Records/s is from the first call to the end of
`flush`; CPU is the client process's, its threads included, in seconds per million records. The data is made before
the clock starts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, Broker, running
from benchmarks.recording.findings import LOWER, Finding, compared, size
from kafkalog.client.producer import Producer

PARTITIONS = 3
RECORDS = 3_000_000
QUICK_SHARE = 5
VALUE_BYTES = 100
LIST = 10_000
ROWS = 100_000
POLL_EVERY = 1000
KAFKA_PYTHON_SHARE = 20
"""kafka-python sends only this part of the records: it would take most of the time."""
DEADLINE_S = 600.0

CONFLUENT = "confluent-kafka"
KAFKA_PYTHON = "kafka-python"


@dataclass(frozen=True)
class Data:
    """The records of a run."""

    values: list[bytes]
    keys: list[bytes | None]
    table: pa.Table

    @classmethod
    def make(cls, count: int, keyed: bool) -> Data:
        values = [b"%0*d" % (VALUE_BYTES, n) for n in range(count)]
        keys = [b"key-%d" % (n * 7919 % 100_000_007) if keyed else None for n in range(count)]
        return cls(values, keys, pa.table({"value": pa.array(values), "key": pa.array(keys, pa.binary())}))

    def part(self, share: int) -> Data:
        """Return the first of the records."""
        count = len(self.values) // share
        return Data(self.values[:count], self.keys[:count], self.table.slice(0, count))


@dataclass(frozen=True)
class Result:
    records_per_s: float
    cpu_s_per_million: float


def kafkalog_send(bootstrap: str, topic: str, data: Data) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value, key in zip(data.values, data.keys, strict=True):
            last = producer.send(topic, value, key)
        producer.flush(DEADLINE_S)
        last.result(DEADLINE_S)


def kafkalog_values(bootstrap: str, topic: str, data: Data) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for start in range(0, len(data.values), LIST):
            last = producer.send_values(topic, data.values[start : start + LIST])
        producer.flush(DEADLINE_S)
        last[-1].result(DEADLINE_S)


def kafkalog_arrow(bootstrap: str, topic: str, data: Data) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for start in range(0, data.table.num_rows, ROWS):
            last = producer.send_arrow(topic, data.table.slice(start, ROWS), key="key")
        producer.flush(DEADLINE_S)
        last[-1].result(DEADLINE_S)


def confluent_send(bootstrap: str, topic: str, data: Data) -> None:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    for number, (value, key) in enumerate(zip(data.values, data.keys, strict=True)):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.01)
        if number % POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(DEADLINE_S):
        raise TimeoutError("confluent-kafka has not delivered everything")


def kafka_python_send(bootstrap: str, topic: str, data: Data) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        for value, key in zip(data.values, data.keys, strict=True):
            producer.send(topic, value, key)
        producer.flush(DEADLINE_S)
    finally:
        producer.close()


CASES: dict[tuple[str, bool], dict[str, Callable[[str, str, Data], None]]] = {
    ("send", False): {OURS: kafkalog_send, CONFLUENT: confluent_send, KAFKA_PYTHON: kafka_python_send},
    ("send", True): {OURS: kafkalog_send, CONFLUENT: confluent_send, KAFKA_PYTHON: kafka_python_send},
    ("many: send_values", False): {OURS: kafkalog_values, CONFLUENT: confluent_send, KAFKA_PYTHON: kafka_python_send},
    ("many: send_arrow", False): {OURS: kafkalog_arrow, CONFLUENT: confluent_send, KAFKA_PYTHON: kafka_python_send},
    ("many: send_arrow", True): {OURS: kafkalog_arrow, CONFLUENT: confluent_send, KAFKA_PYTHON: kafka_python_send},
}
"""The runs of each case; the peers' runs of `send` serve for `many`, too."""


def measure(broker: Broker, run: Callable[[str, str, Data], None], data: Data, serial: int) -> Result:
    """Run once, into a new topic."""
    topic = f"producer-client-{serial}"
    broker.create_topic(topic, PARTITIONS)
    began, cpu = time.perf_counter(), time.process_time()
    run(broker.bootstrap, topic, data)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    sent = sum(broker.end_offsets(topic, PARTITIONS))
    if sent != len(data.values):
        raise RuntimeError(f"the broker holds {sent} records of {len(data.values)}")
    broker.delete_topic(topic)
    return Result(sent / seconds, cpu / sent * 1e6)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case by each producer, in turns")
    parser.add_argument("--records", type=int, default=RECORDS, help="records of a run (default: %(default)s)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print two tables; return the results."""
    options = arguments(words)
    runs = 1 if options.quick else options.runs
    count = options.records // QUICK_SHARE if options.quick else options.records
    results: dict[tuple[Callable[..., None], bool], list[Result]] = defaultdict(list)
    serial = 0
    with running([OURS], None) as (broker,):
        measure(broker, kafkalog_arrow, Data.make(ROWS, True), serial)
        for keyed in (False, True):
            data = Data.make(count, keyed)
            chosen = {run: name for (_, each), by in CASES.items() if each is keyed for name, run in by.items()}
            for _ in range(runs):
                for run, name in chosen.items():
                    serial += 1
                    mine = data.part(KAFKA_PYTHON_SHARE) if name == KAFKA_PYTHON else data
                    result = measure(broker, run, mine, serial)
                    results[run, keyed].append(result)
                    told = f"{run.__name__:18} {'keys' if keyed else 'no keys':8} {result}"
                    print(f"{time.strftime('%X')} {name:16} {told}", file=sys.stderr, flush=True)
    show(results)
    return findings(results)


Results = Mapping[tuple[Callable[..., None], bool], Sequence[Result]]
"""The runs of each producer, without and with keys."""


def findings(results: Results) -> list[Finding]:
    """Turn what was measured into results."""
    peers = {CONFLUENT: CONFLUENT, KAFKA_PYTHON: KAFKA_PYTHON}
    found: list[Finding] = []
    for (case, keyed), by in CASES.items():
        measured = {name: results.get((run, keyed), ()) for name, run in by.items()}
        rates = {name: [each.records_per_s for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu_s_per_million for each in taken] for name, taken in measured.items()}
        call = "" if case != "send" else ", one call for each record"
        title = f"`{case.removeprefix('many: ')}`, {size(VALUE_BYTES)}{call}, {'keys' if keyed else 'no keys'}"
        found += compared(title, "records/s", rates, peers)
        found += compared(f"{title}: client CPU for a million records", "s", costs, peers, better=LOWER)
    return found


def show(results: Results) -> None:
    """Print the tables."""
    for what, field, form in (
        ("records/s", "records_per_s", ",.0f"),
        ("client CPU s per million", "cpu_s_per_million", ".2f"),
    ):
        rows = [
            report.compare(
                f"{case}, {'keys' if keyed else 'no keys'}",
                {name: [getattr(each, field) for each in results[run, keyed]] for name, run in by.items()},
                form,
            )
            for (case, keyed), by in CASES.items()
        ]
        print(f"\n{report.table(report.header(what, [OURS, CONFLUENT, KAFKA_PYTHON]), rows)}")
    print(f"\n{report.machine()}")


if __name__ == "__main__":
    main()
