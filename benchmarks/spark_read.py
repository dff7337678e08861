"""Rows a second into Spark: the kafkalog source against Spark's own Kafka connector, and against PySpark's ceiling.

Run from the repository: `python -m benchmarks.spark_read [--quick]`.

Apache Kafka's ProducerPerformance fills topics with records on an Apache Kafka broker and on a kafkalog broker, in the
batches that its defaults make. The contestants read them, each in a Spark of its own (local[2], PySpark 4.2, the newest
that the connector is published for), warmed up and then kept, so that runs can take turns:

- connector: `spark.read.format("kafka")` from Apache Kafka;
- kafkalog from Kafka: `spark.read.format("kafkalog")` from the same topics;
- kafkalog: the same from the kafkalog broker;
- ceiling: a Python data source that hands over the same Arrow record batch again and again, as many rows as the topic
  holds: what PySpark leaves to any source written in Python.

Two tables come out: rows a second, and the CPU seconds that Spark's processes take for a million rows, which other load
on the machine disturbs less. `--plot FILE` draws the first against partitions, by record size and codec.

Cases: all columns and the value alone, as a batch, and all columns with Trigger.AvailableNow; always into Spark's
`noop` sink. Time is that of the whole query, from `load` on. "value" selects the column from the connector, and
chooses it by `.schema("value BINARY")` for kafkalog, as its users would.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.findings import LOWER, Finding, compared, count
from benchmarks.findings import size as named
from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, PEERS, Broker, running
from benchmarks.peers.spark import SparkProcess
from benchmarks.produce import TOOL
from peers import kafka
from tests.spark_kafkalog import older

RECORDS = 10_000_000
QUICK_SHARE = 10
SMALL_BYTES = 100
"""RECORDS are of this size; of larger ones a topic has as many fewer."""
CODECS = ("none", "lz4")
JOBS = ("batch", "batch, value", "AvailableNow")
KAFKA = next(iter(PEERS))
WARM_UPS = 2
"""Spark compiles the code of each query anew, and the JVM compiles what runs often: the first runs show mostly that."""


@dataclass(frozen=True)
class Contestant:
    """A source, and the broker that it reads from."""

    name: str
    source: str
    broker: str


CONNECTOR = Contestant("connector", "kafka", KAFKA)
CONTESTANTS = (
    CONNECTOR,
    Contestant("kafkalog from Kafka", "kafkalog", KAFKA),
    Contestant("kafkalog", "kafkalog", OURS),
    Contestant("ceiling", "ceiling", OURS),
)


@dataclass(frozen=True)
class Load:
    """A topic: how many partitions, bytes of a value, compression, records."""

    partitions: int
    size: int
    codec: str
    records: int

    @property
    def topic(self) -> str:
        return f"spark-read-{self.partitions}-{self.size}-{self.codec}"

    def __str__(self) -> str:
        codec = "plain" if self.codec == "none" else self.codec
        return f"{self.size} B, {codec}, {self.partitions} partition{'s' * (self.partitions > 1)}"


class Result(NamedTuple):
    """Of one run: million rows a second, and the CPU seconds of Spark (not of the broker) for a million rows."""

    rate: float
    cpu: float


def fill(broker: Broker, load: Load) -> None:
    """Make the topic, with its records."""
    broker.create_topic(load.topic, load.partitions)
    properties = [f"bootstrap.servers={broker.bootstrap}", f"compression.type={load.codec}"]
    sizes = ["--num-records", str(load.records), "--record-size", str(load.size), "--throughput", "-1"]
    kafka.run_java_tool(TOOL, ["--topic", load.topic, *sizes, "--producer-props", *properties])
    written = sum(broker.end_offsets(load.topic, load.partitions))
    if written != load.records:
        raise RuntimeError(f"{broker.name}: {load.topic} has {written} of {load.records} records")


class Session:
    """A contestant's Spark, which runs jobs of `benchmarks.spark_job`."""

    def __init__(self, contestant: Contestant, bootstrap: str, directory: Path) -> None:
        self.contestant = contestant
        self._bootstrap = bootstrap
        jars = older.connector() if contestant.source == "kafka" else []
        self.process = SparkProcess(contestant.name, "benchmarks.spark_job", directory, older.python(), jars)

    def run(self, job: str, load: Load, *, count: bool = False) -> float:
        """Return the seconds of a job, or the rows that it sees."""
        order = {"job": job, "source": self.contestant.source, "topic": load.topic, "bootstrap": self._bootstrap}
        return float(self.process.ask(order | asdict(load) | {"count": count}))

    def measure(self, job: str, load: Load) -> Result:
        """Run a job once, and measure it."""
        before = self.process.cpu_seconds()
        seconds = self.run(job, load)
        return Result(load.records / seconds / 1e6, (self.process.cpu_seconds() - before) / load.records * 1e6)


@contextmanager
def sessions(contestants: Sequence[Contestant], brokers: Mapping[str, Broker]) -> Iterator[list[Session]]:
    """Start a Spark for each contestant."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-read-")))
        started = []
        for contestant in contestants:
            session = Session(contestant, brokers[contestant.broker].bootstrap, directory)
            stack.callback(session.process.close)
            started.append(session)
        yield started


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=RECORDS, help=f"records of {SMALL_BYTES} B; fewer if larger")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case for each contestant, in turns")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[SMALL_BYTES], help="bytes of a value")
    parser.add_argument("--partitions", nargs="+", type=int, default=[2])
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=JOBS)
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--contestants", nargs="+", default=names, choices=names)
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    parser.add_argument(
        "--plot", type=Path, help="draw rows a second against partitions, by size and codec, into this file"
    )
    return parser.parse_args(words)


Results = dict[tuple[Load, str], dict[str, list[Result]]]


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    options = arguments(words)
    records = options.records // QUICK_SHARE if options.quick else options.records
    runs = 1 if options.quick else options.runs
    contestants = [each for each in CONTESTANTS if each.name in options.contestants]
    loads = [
        Load(partitions, size, codec, max(records * SMALL_BYTES // size, 1))
        for size in options.sizes
        for codec in options.codecs
        for partitions in options.partitions
    ]
    results: Results = defaultdict(lambda: defaultdict(list))
    with running([OURS, KAFKA], options.dir) as started:
        brokers = {broker.name: broker for broker in started}
        with sessions(contestants, brokers) as competing:
            for load in loads:
                for broker in started:
                    fill(broker, load)
                for session in competing:
                    seen = session.run("batch", load, count=True)
                    if seen != load.records:
                        raise RuntimeError(f"{session.contestant.name} reads {seen} of {load.records} records")
                for job in options.jobs:
                    compete(competing, job, load, runs, results[load, job])
    show(results, [each.name for each in contestants])
    if options.plot:
        from benchmarks.peers.plot import Point, draw

        points = []
        for (load, job), found in results.items():
            rates = {name: report.median([result.rate for result in taken]) for name, taken in found.items()}
            points.append(Point(job, load.partitions, load.size, load.codec, rates))
        draw(options.plot, points)
    return findings(results)


RIVALS = {CONNECTOR.name: "Spark's connector", "ceiling": "a Python source with nothing behind it"}
TITLES = {"batch": "batch", "batch, value": "batch, the value alone", "AvailableNow": "AvailableNow"}


def findings(results: Mapping[tuple[Load, str], Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for (load, job), measured in results.items():
        rates = {name: [each.rate for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu for each in taken] for name, taken in measured.items()}
        codec = "plain" if load.codec == "none" else load.codec
        partitions = f"{load.partitions} partition{'s' * (load.partitions > 1)}"
        case = f"{count(load.records)} records of {named(load.size)}, {codec}, {partitions}"
        for ours, source in (("kafkalog", ""), ("kafkalog from Kafka", " from Apache Kafka")):
            title = f"{TITLES[job]}{source}, {case}"
            cost = f"{title}: CPU of Spark for a million rows"
            found += compared(title, "rows/s", rates, RIVALS, ours=ours, scale=1e6)
            found += compared(cost, "s", costs, RIVALS, ours=ours, better=LOWER)
    return found


def compete(competing: Sequence[Session], job: str, load: Load, runs: int, found: dict[str, list[Result]]) -> None:
    """Warm up, then take turns."""
    for _ in range(WARM_UPS):
        for session in competing:
            session.run(job, load)
    for _ in range(runs):
        for session in competing:
            result = session.measure(job, load)
            found[session.contestant.name].append(result)
            print(f"{session.contestant.name:20} {job:14} {load}: {result}", file=sys.stderr, flush=True)


def show(results: Results, names: Sequence[str]) -> None:
    """Print medians, and ratios that are above 1 where kafkalog is better."""
    rivals = [name for name in names if not name.startswith("kafkalog")]
    ours = [name for name in names if name.startswith("kafkalog")]
    heading = [*names, *(f"{name} : {rival}" for rival in rivals for name in ours)]
    for what, field in (("million rows/s", "rate"), ("CPU s / million rows", "cpu")):
        rows = []
        for (load, job), found in results.items():
            medians = {name: report.median([getattr(each, field) for each in found[name]]) for name in names}
            ratios = [medians[name] / medians[rival] for rival in rivals for name in ours]
            better = [ratio if field == "rate" else 1 / ratio for ratio in ratios]
            row = [f"{job}; {load}", *(f"{medians[name]:.2f}" for name in names), *(f"{ratio:.2f}" for ratio in better)]
            rows.append(row)
        print(f"\n{report.table([what, *heading], rows)}")
    print(f"\n{report.machine()}; PySpark {older.PYSPARK}, {KAFKA}")


if __name__ == "__main__":
    main()
