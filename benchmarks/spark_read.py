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

Cases: all columns and the value alone, as a batch, and all columns with Trigger.AvailableNow, into Spark's `noop` sink;
on request a count, and an aggregate of three columns. Time is that of the whole query, from `load` on. "value" selects
the column from the connector, and chooses it by `.schema("value BINARY")` for kafkalog, as its users would.

`--topics N` spreads the records over N topics, which one query reads by `subscribePattern`. `--tls` reads from a TLS
listener of Apache Kafka. `--launcher` has kafkalog's Spark start Python by `kafkalog-python`, and `--setting KEY=VALUE`
is for all. Such a run is recorded with `--variant`. For example, small topics, few partitions of large records, and a
count of compressed ones:

    python -m benchmarks.spark_read --topics 40 --partitions 1 --records 40000 --jobs batch AvailableNow --launcher
    python -m benchmarks.spark_read --sizes 1000 --partitions 1 2 --codecs none --jobs batch AvailableNow
    python -m benchmarks.spark_read --sizes 200 --partitions 12 --records 40000000 --codecs lz4 --jobs count aggregate
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, PEERS, Broker, running, stop_when_told
from benchmarks.peers.spark import GIVEN, ROOT, SparkProcess
from benchmarks.produce import TOOL
from benchmarks.recording.findings import LOWER, Finding, compared, count
from benchmarks.recording.findings import size as named
from peers.brokers import kafka
from peers.brokers.secured_kafka import SecuredKafka
from tests.spark_kafkalog import older

RECORDS = 10_000_000
QUICK_SHARE = 10
SMALL_BYTES = 100
"""RECORDS are of this size; of larger ones a topic has as many fewer."""
CODECS = ("none", "lz4")
JOBS = ("batch", "batch, value", "AvailableNow")
OTHER_JOBS = ("count", "aggregate")
LAUNCHER = ROOT / "scripts" / "kafkalog-python"
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
    topics: int = 1
    """The number of topics that share the records."""

    @property
    def stem(self) -> str:
        return f"spark-read-{self.topics}-{self.partitions}-{self.size}-{self.codec}"

    @property
    def names(self) -> list[str]:
        return [f"{self.stem}-of-{number}" for number in range(self.topics)]

    @property
    def subscription(self) -> dict[str, str]:
        """The option that reads the topics."""
        return {"subscribe": self.names[0]} if self.topics == 1 else {"subscribePattern": f"^{self.stem}-of-[0-9]+$"}

    @property
    def layout(self) -> str:
        partitions = f"{self.partitions} partition{'s' * (self.partitions > 1)}"
        return partitions if self.topics == 1 else f"{self.topics} topics of {partitions}"

    def __str__(self) -> str:
        codec = "plain" if self.codec == "none" else self.codec
        return f"{self.size} B, {codec}, {self.layout}"


class Result(NamedTuple):
    """Of one run: million rows a second, and the CPU seconds of Spark (not of the broker) for a million rows."""

    rate: float
    cpu: float


def fill(broker: Broker, load: Load) -> None:
    """Make the topics, with their records."""
    for name in load.names:
        broker.create_topic(name, load.partitions)
        records = load.records // load.topics
        properties = [f"bootstrap.servers={broker.bootstrap}", f"compression.type={load.codec}"]
        sizes = ["--num-records", str(records), "--record-size", str(load.size), "--throughput", "-1"]
        kafka.run_java_tool(TOOL, ["--topic", name, *sizes, "--producer-props", *properties])
        written = sum(broker.end_offsets(name, load.partitions))
        if written != records:
            raise RuntimeError(f"{broker.name}: {name} has {written} of {records} records")


class Session:
    """A contestant's Spark, which runs jobs of `benchmarks.jobs.spark_read`."""

    def __init__(
        self, contestant: Contestant, options: Mapping[str, str], directory: Path, given: Mapping[str, object]
    ) -> None:
        self.contestant = contestant
        self._options = options
        jars = older.connector() if contestant.source == "kafka" else []
        python = older.python()
        variables = {GIVEN: json.dumps(given), "KAFKALOG_PYTHON": str(python)}
        self.process = SparkProcess(contestant.name, "benchmarks.jobs.spark_read", directory, python, jars, variables)

    def run(self, job: str, load: Load, *, rows: bool = False) -> float:
        """Return the seconds of a job, or the rows that it sees."""
        options = {**self._options, **load.subscription, "startingOffsets": "earliest"}
        order = {"job": job, "source": self.contestant.source, "options": options, "rows": rows}
        return float(self.process.ask(order | asdict(load)))

    def measure(self, job: str, load: Load) -> Result:
        """Run a job once, and measure it."""
        before = self.process.cpu_seconds()
        seconds = self.run(job, load)
        return Result(load.records / seconds / 1e6, (self.process.cpu_seconds() - before) / load.records * 1e6)


@contextmanager
def sessions(
    contestants: Sequence[Contestant],
    connections: Mapping[str, Mapping[str, str]],
    settings: Mapping[str, str],
    *,
    launcher: bool,
) -> Iterator[list[Session]]:
    """Start a Spark for each contestant; `connections` has the options to connect to each broker."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-read-")))
        started = []
        for contestant in contestants:
            given: dict[str, object] = {"settings": dict(settings)}
            if launcher and contestant.source == "kafkalog":
                given["python"] = str(LAUNCHER)
            session = Session(contestant, connections[contestant.broker], directory, given)
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
    parser.add_argument("--topics", type=int, default=1, help="topics that share the records, read by a pattern")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=(*JOBS, *OTHER_JOBS))
    parser.add_argument("--tls", action="store_true", help="read from a TLS listener of Apache Kafka")
    parser.add_argument("--launcher", action="store_true", help="start kafkalog's Python by kafkalog-python")
    parser.add_argument("--setting", action="append", default=[], metavar="KEY=VALUE", help="a setting of all Sparks")
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
    if options.tls:
        contestants = [each for each in contestants if each.broker == KAFKA]
    settings = dict(each.split("=", 1) for each in options.setting)
    loads = [
        Load(
            partitions,
            size,
            codec,
            max(records * SMALL_BYTES // size // options.topics, 1) * options.topics,
            options.topics,
        )
        for size in options.sizes
        for codec in options.codecs
        for partitions in options.partitions
    ]
    results: Results = defaultdict(lambda: defaultdict(list))
    brokers = secured(options.dir) if options.tls else plain(options.dir)
    with (
        brokers as (started, connections),
        sessions(contestants, connections, settings, launcher=options.launcher) as competing,
    ):
        for load in loads:
            for broker in started:
                fill(broker, load)
            for session in competing:
                seen = session.run("batch", load, rows=True)
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


Started = tuple[list[Broker], dict[str, dict[str, str]]]
"""Brokers to fill by their plain listeners, and the options that connect Spark to each."""


@contextmanager
def plain(directory: Path | None) -> Iterator[Started]:
    """Start kafkalog and Apache Kafka."""
    with running([OURS, KAFKA], directory) as started:
        yield started, {broker.name: {"kafka.bootstrap.servers": broker.bootstrap} for broker in started}


@contextmanager
def secured(directory: Path | None) -> Iterator[Started]:
    """Start Apache Kafka, and connect by its TLS listener."""
    stop_when_told()
    with (
        tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=directory) as root,
        SecuredKafka(PEERS[KAFKA], Path(root)) as broker,
    ):
        options = {
            "kafka.bootstrap.servers": broker.addresses["SSL"],
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(broker.certificates.authority),
        }
        yield [Broker(KAFKA, broker.bootstrap, broker.pid)], {KAFKA: options}


RIVALS = {CONNECTOR.name: "Spark's connector", "ceiling": "a Python source with nothing behind it"}
TITLES = {
    "batch": "batch",
    "batch, value": "batch, the value alone",
    "AvailableNow": "AvailableNow",
    "count": "count",
    "aggregate": "sum, maximum and minimum",
}


def findings(results: Mapping[tuple[Load, str], Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for (load, job), measured in results.items():
        rates = {name: [each.rate for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu for each in taken] for name, taken in measured.items()}
        codec = "plain" if load.codec == "none" else load.codec
        case = f"{count(load.records)} records of {named(load.size)}, {codec}, {load.layout}"
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
