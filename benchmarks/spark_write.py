"""Rows a second out of Spark: the kafkalog sink against Spark's own Kafka connector.

Run from the repository: `python -m benchmarks.spark_write [--quick]`.

A Parquet file (plain, uncompressed, from the page cache) holds rows with a value of 100 random letters, as Kafka's
ProducerPerformance makes them, and a key of about 8 bytes. Four contestants write it into new topics of two
partitions, each in a Spark of its own (local[2], PySpark 4.2, the newest that the connector is published for), warmed
up and then kept, so that runs can take turns:

- connector: `df.write.format("kafka")` to Apache Kafka;
- kafkalog to Kafka: `df.write.format("kafkalog")` to the same broker;
- kafkalog: the same to the kafkalog broker;
- kafkalog, no byte limit: the same with `spark.sql.execution.arrow.maxBytesPerBatch` at its largest value, so that
  Spark does not measure its Arrow batch after every row (docs/reference/sink.md).

Cases: without and with a key; plain, lz4 and zstd. All other settings are the defaults. After each run the end offsets
are checked, and the topic is deleted. Three tables come out: rows a second; the CPU seconds that Spark's processes take
for a million rows, which other load on the machine disturbs less; and the broker's CPU seconds. The time of reading the
rows and writing them nowhere (`noop`) is shown below: no sink can take less.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, PEERS, Broker, running
from benchmarks.peers.spark import SparkProcess
from benchmarks.recording.findings import LOWER, Finding, compared
from tests.spark_kafkalog import older

ROWS = 10_000_000
QUICK_SHARE = 10
VALUE_BYTES = 100
PARTITIONS = 2
CODECS = ("none", "lz4", "zstd")
COLUMNS = {"no key": ["value"], "key": ["key", "value"]}
KAFKA = next(iter(PEERS))
WARM_UPS = 2
"""Spark compiles the code of each query anew, and the JVM compiles what runs often: the first runs show mostly that."""
ROW_GROUP = 250_000

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Contestant:
    """A sink, and the broker that it writes to."""

    name: str
    format: str
    broker: str
    byte_limit: bool = True
    """True if Spark measures its Arrow batches, as it does by default."""


CONNECTOR = Contestant("connector", "kafka", KAFKA)
CONTESTANTS = (
    CONNECTOR,
    Contestant("kafkalog to Kafka", "kafkalog", KAFKA),
    Contestant("kafkalog", "kafkalog", OURS),
    Contestant("kafkalog, no byte limit", "kafkalog", OURS, byte_limit=False),
)
NO_BYTE_LIMIT = {"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"}


class Result(NamedTuple):
    """Of one run: million rows a second, and CPU seconds for a million rows of Spark and of the broker."""

    rate: float
    cpu: float
    broker_cpu: float


def make_rows(path: Path, rows: int) -> None:
    """Make the Parquet file."""
    random = np.random.default_rng(1)
    schema = pa.schema([("key", pa.string()), ("value", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, ROW_GROUP):
            count = min(ROW_GROUP, rows - start)
            letters = random.integers(ord("A"), ord("Z") + 1, count * VALUE_BYTES, dtype=np.uint8)
            offsets = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
            values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
            keys = pa.array(np.arange(start, start + count)).cast(pa.string())
            writer.write_table(pa.table([keys, values], schema=schema))


@contextmanager
def sparks(contestants: Sequence[Contestant], directory: Path) -> Iterator[dict[Contestant, SparkProcess]]:
    """Start a Spark for each contestant."""
    with ExitStack() as stack:
        python, jars = older.python(), older.connector()
        started = {}
        for each in contestants:
            own = jars if each.format == "kafka" else []
            started[each] = SparkProcess(each.name, "benchmarks.jobs.spark_write", directory, python, own)
            stack.callback(started[each].close)
        yield started


def measure(contestant: Contestant, spark: SparkProcess, broker: Broker, rows: Path, case: Case, count: int) -> Result:
    """Run once, into a topic of its own."""
    topic = f"spark-write-{next(_numbers)}"
    broker.create_topic(topic, PARTITIONS)
    spark_before, broker_before = spark.cpu_seconds(), broker.cpu_seconds()
    properties = {"bootstrap.servers": broker.bootstrap, "compression.type": case.codec}
    seconds = spark.ask(
        {
            "rows": str(rows),
            "columns": COLUMNS[case.columns],
            "format": contestant.format,
            "topic": topic,
            "properties": properties,
            "conf": {} if contestant.byte_limit else NO_BYTE_LIMIT,
        }
    )
    spark_cpu, broker_cpu = spark.cpu_seconds() - spark_before, broker.cpu_seconds() - broker_before
    written = sum(broker.end_offsets(topic, PARTITIONS))
    broker.delete_topic(topic)
    if written != count:
        raise RuntimeError(f"{contestant.name} has written {written} of {count} rows")
    return Result(count / seconds / 1e6, spark_cpu / count * 1e6, broker_cpu / count * 1e6)


class Case(NamedTuple):
    """The columns that are written, and their compression."""

    columns: str
    codec: str

    def __str__(self) -> str:
        return f"{self.columns}, {'plain' if self.codec == 'none' else self.codec}"


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [each.name for each in CONTESTANTS]
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case for each contestant, in turns")
    parser.add_argument("--warm-ups", type=int, default=WARM_UPS)
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=COLUMNS)
    parser.add_argument("--contestants", nargs="+", default=names, choices=names, metavar="NAME", help=f"of {names}")
    parser.add_argument("--quick", action="store_true", help="one run of fewer rows: a look, not a measurement")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    options = arguments(words)
    count = options.rows // QUICK_SHARE if options.quick else options.rows
    runs = 1 if options.quick else options.runs
    chosen = [each for each in CONTESTANTS if each.name in options.contestants]
    cases = [Case(columns, codec) for columns in options.columns for codec in options.codecs]
    results: dict[Case, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        wanted = [name for name in (OURS, KAFKA) if name in {each.broker for each in chosen}]
        brokers = {broker.name: broker for broker in stack.enter_context(running(wanted, options.dir))}
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-write-", dir=options.dir)))
        rows = directory / "rows.parquet"
        make_rows(rows, count)
        started = stack.enter_context(sparks(chosen, directory))
        for case in cases:
            for run in range(-options.warm_ups, runs):
                for each, spark in started.items():
                    result = measure(each, spark, brokers[each.broker], rows, case, count)
                    print(f"{each.name:24} {case!s:16} {run:2} {result}", file=sys.stderr, flush=True)
                    if run >= 0:
                        results[case][each.name].append(result)
        nowhere = _nowhere(next(iter(started.values())), rows, count)
    show(results, [each.name for each in chosen])
    print(f"\nThe same rows (key, value) into Spark's noop sink: {nowhere:.2f} million rows/s")
    print(f"\n{report.machine()}; PySpark {older.PYSPARK}, {KAFKA}; {count} rows, {PARTITIONS} partitions")
    return findings(results)


PEER = {CONNECTOR.name: "Spark's sink"}
TITLES = {
    "kafkalog": "",
    "kafkalog, no byte limit": ", Arrow batches without a limit in bytes",
    "kafkalog to Kafka": ", to Apache Kafka",
}


def findings(results: Mapping[Case, Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, measured in results.items():
        rates = {name: [each.rate for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu for each in taken] for name, taken in measured.items()}
        brokers = {name: [each.broker_cpu for each in taken] for name, taken in measured.items()}
        columns = "keys" if case.columns == "key" else case.columns
        for ours, way in TITLES.items():
            title = f"{columns}, {'plain' if case.codec == 'none' else case.codec}{way}"
            cost, broker = f"{title}: CPU of Spark for a million rows", f"{title}: broker CPU for a million rows"
            found += compared(title, "rows/s", rates, PEER, ours=ours, scale=1e6)
            found += compared(cost, "s", costs, PEER, ours=ours, better=LOWER)
            found += compared(broker, "s", brokers, PEER, ours=ours, better=LOWER)
    return found


def _nowhere(spark: SparkProcess, rows: Path, count: int) -> float:
    order = {"rows": str(rows), "columns": COLUMNS["key"], "format": "noop", "topic": "", "properties": {}, "conf": {}}
    return count / min(float(spark.ask(order)) for _ in range(3)) / 1e6


def show(results: dict[Case, dict[str, list[Result]]], names: Sequence[str]) -> None:
    """Print medians, and ratios that are above 1 where kafkalog is better."""
    ours = [name for name in names if name != CONNECTOR.name and CONNECTOR.name in names]
    heading = [*names, *(f"{name} : {CONNECTOR.name}" for name in ours)]
    titles = {"rate": "million rows/s", "cpu": "Spark CPU s / M rows", "broker_cpu": "broker CPU s / M rows"}
    for field, what in titles.items():
        lines = []
        for case, found in results.items():
            medians = {name: report.median([getattr(each, field) for each in found[name]]) for name in names}
            ratios = [medians[name] / medians[CONNECTOR.name] for name in ours]
            better = [ratio if field == "rate" else 1 / ratio for ratio in ratios]
            lines.append([str(case), *(f"{medians[n]:.2f}" for n in names), *(f"{ratio:.2f}" for ratio in better)])
        print(f"\n{report.table([what, *heading], lines)}")


if __name__ == "__main__":
    main()
