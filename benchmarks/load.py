"""Rows a second from a topic into Parquet: `kafkalog load` against Spark's own Kafka connector and `write.parquet`.

Run from the repository: `python -m benchmarks.load [--quick]`.

Apache Kafka's ProducerPerformance fills topics of two partitions with records of 100 bytes, plain and lz4, on an Apache
Kafka broker and on a kafkalog broker. Three contestants load them into Parquet with zstd (level 3, Spark's own) in a
directory of this machine, each in a Spark of its own (local[2], PySpark 4.2, the newest that the connector is published
for), warmed up and then kept, so that runs can take turns:

- connector: `spark.read.format("kafka")…write.parquet` from Apache Kafka;
- load from Kafka: `kafkalog load` from the same topics;
- load: the same from the kafkalog broker.

All write key, value, topic, partition, offset, timestamp, timestampType and headers. Time is that of the whole load:
from asking the brokers for offsets to the renamed directory, with every file forced to the disk, which the connector's
side does not do. Rows are counted in the files after each run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.jobs.load import CONNECTOR, LOAD
from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, PEERS, Broker, running
from benchmarks.peers.spark import SparkProcess
from benchmarks.produce import TOOL
from benchmarks.recording.findings import LOWER, Finding, compared, count
from peers.brokers import kafka
from tests.spark_kafkalog import older

RECORDS = 10_000_000
QUICK_SHARE = 10
RECORD_BYTES = 100
PARTITIONS = 2
CODECS = ("none", "lz4")
KAFKA = next(iter(PEERS))
WARM_UPS = 1
"""The JVM compiles what runs often, and Python workers load the kernels."""


@dataclass(frozen=True)
class Contestant:
    """A loader, and the broker that it reads from."""

    name: str
    kind: str
    broker: str


BASE = Contestant("connector", CONNECTOR, KAFKA)
CONTESTANTS = (BASE, Contestant("load from Kafka", LOAD, KAFKA), Contestant("load", LOAD, OURS))


class Result(NamedTuple):
    """Of one run: million rows a second, CPU seconds of Spark for a million rows, bytes on disk a row."""

    rate: float
    cpu: float
    size: float


class Session:
    """A contestant's Spark, which loads on demand (`benchmarks.jobs.load`)."""

    def __init__(self, contestant: Contestant, bootstrap: str, directory: Path, python: Path, jars: Sequence[Path]):
        self.contestant = contestant
        self._bootstrap = bootstrap
        self._process = SparkProcess(contestant.name, "benchmarks.jobs.load", directory, python, jars)
        self.close = self._process.close

    def run(self, topic: str, records: int) -> Result:
        """Load once.

        Raises:
            RuntimeError: Not every record was written.
        """
        before = self._process.cpu_seconds()
        order = {"contestant": self.contestant.kind, "topic": topic, "bootstrap": self._bootstrap}
        done: dict[str, Any] = self._process.ask(order)
        if done["rows"] != records:
            raise RuntimeError(f"{self.contestant.name} wrote {done['rows']} of {records} rows")
        cpu = self._process.cpu_seconds() - before
        return Result(records / done["seconds"] / 1e6, cpu / records * 1e6, done["bytes"] / records)


def fill(broker: Broker, topic: str, codec: str, records: int) -> None:
    """Make a topic with so many records."""
    broker.create_topic(topic, PARTITIONS)
    properties = [f"bootstrap.servers={broker.bootstrap}", f"compression.type={codec}"]
    sizes = ["--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
    kafka.run_java_tool(TOOL, ["--topic", topic, *sizes, "--producer-props", *properties])
    written = sum(broker.end_offsets(topic, PARTITIONS))
    if written != records:
        raise RuntimeError(f"{broker.name}: {topic} has {written} of {records} records")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case for each contestant, in turns")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    options = arguments(words)
    records = options.records // QUICK_SHARE if options.quick else options.records
    runs = 1 if options.quick else options.runs
    results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    with running([OURS, KAFKA], options.dir) as started, ExitStack() as stack:
        brokers = {broker.name: broker for broker in started}
        topics = {codec: f"load-{codec}" for codec in options.codecs}
        for codec, topic in topics.items():
            for broker in started:
                fill(broker, topic, codec, records)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="load-")))
        sessions = []
        for contestant in CONTESTANTS:
            jars = older.connector() if contestant.kind == CONNECTOR else []
            bootstrap = brokers[contestant.broker].bootstrap
            session = Session(contestant, bootstrap, directory, older.python(), jars)
            stack.callback(session.close)
            sessions.append(session)
        for codec, topic in topics.items():
            case = "plain" if codec == "none" else codec
            for run in range(WARM_UPS + runs):
                for session in sessions:
                    result = session.run(topic, records)
                    if run >= WARM_UPS:
                        results[case][session.contestant.name].append(result)
                        print(f"{session.contestant.name:16} {case:6} {result}", file=sys.stderr, flush=True)
    show(results)
    return findings(results, records)


PEER = {BASE.name: "Spark's connector to Parquet"}


def findings(results: Mapping[str, Mapping[str, Sequence[Result]]], records: int) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, measured in results.items():
        rates = {name: [each.rate for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu for each in taken] for name, taken in measured.items()}
        sizes = {name: [each.size for each in taken] for name, taken in measured.items()}
        for ours, source in (("load", ""), ("load from Kafka", " from Apache Kafka")):
            title = f"{count(records)} records{'' if case == 'plain' else f' in {case}'}{source}"
            cost, size = f"{title}: CPU of Spark for a million rows", f"{title}: size of a row on the disk"
            found += compared(title, "rows/s", rates, PEER, ours=ours, scale=1e6)
            found += compared(cost, "s", costs, PEER, ours=ours, better=LOWER)
            found += compared(size, "B", sizes, PEER, ours=ours, better=LOWER)
    return found


def show(results: dict[str, dict[str, list[Result]]]) -> None:
    """Print medians, and ratios that are above 1 where kafkalog is better."""
    names = [contestant.name for contestant in CONTESTANTS]
    heading = [*names, *(f"{name} : {BASE.name}" for name in names[1:])]
    for what, field in (("million rows/s", "rate"), ("CPU s / million rows", "cpu"), ("bytes/row on disk", "size")):
        rows = []
        for case, found in results.items():
            medians = {name: report.median([getattr(each, field) for each in found[name]]) for name in names}
            ratios = [medians[name] / medians[BASE.name] for name in names[1:]]
            better = ratios if field == "rate" else [1 / ratio for ratio in ratios]
            rows.append([case, *(f"{medians[name]:.2f}" for name in names), *(f"{ratio:.2f}" for ratio in better)])
        print(f"\n{report.table([what, *heading], rows)}")
    print(f"\n{report.machine()}; PySpark {older.PYSPARK}, {KAFKA}")


if __name__ == "__main__":
    main()
