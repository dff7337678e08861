"""Rows a second into Spark: the kafkalog source against Spark's own Kafka connector.

Run from the repository: ``python -m benchmarks.spark_read [--quick]``.

Apache Kafka's ProducerPerformance fills topics of two partitions with records of 100 bytes, plain and lz4, on an Apache
Kafka broker and on a kafkalog broker, in the batches that its defaults make. Three contestants read them, each in a
Spark of its own (local[2], PySpark 4.2, the newest that the connector is published for), warmed up and then kept, so
that runs can take turns:

- connector: ``spark.read.format("kafka")`` from Apache Kafka;
- kafkalog from Kafka: ``spark.read.format("kafkalog")`` from the same topics;
- kafkalog: the same from the kafkalog broker.

Two tables come out: rows a second, and the CPU seconds that Spark's processes take for a million rows, which other load
on the machine disturbs less.

Cases: all columns and the value alone, as a batch, and all columns with Trigger.AvailableNow; always into Spark's
``noop`` sink. Time is that of the whole query, from ``load`` on. "value" selects the column from the connector, and
chooses it by ``.schema("value BINARY")`` for kafkalog, as its users would.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, PEERS, Broker, running
from benchmarks.produce import TOOL
from tests.peers import kafka
from tests.spark import older

ROOT = Path(__file__).parents[1]
RECORDS = 10_000_000
QUICK_SHARE = 10
RECORD_BYTES = 100
PARTITIONS = 2
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
)


class Result(NamedTuple):
    """Of one run: million rows a second, and the CPU seconds of Spark (not of the broker) for a million rows."""

    rate: float
    cpu: float


class Session:
    """A Spark in a process of its own that runs jobs on demand (``benchmarks.spark_job``)."""

    def __init__(self, contestant: Contestant, bootstrap: str, directory: Path, python: Path, jars: Sequence[Path]):
        self.contestant = contestant
        self._bootstrap = bootstrap
        environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
        with (directory / f"{contestant.name}.err").open("wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", "benchmarks.spark_job", str(directory), ",".join(map(str, jars))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=environment,
            )

    def run(self, job: str, topic: str, *, count: bool = False) -> float:
        """Seconds of a job, or the rows that it sees."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"job": job, "source": self.contestant.source, "topic": topic, "bootstrap": self._bootstrap}
        self._process.stdin.write(json.dumps(order | {"count": count}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Spark of {self.contestant.name} ended with {self._process.wait()}")
        return float(json.loads(answer))

    def cpu_seconds(self) -> float:
        """User and system CPU time so far of driver, JVM and Python workers, those that have ended included."""
        root = psutil.Process(self._process.pid)
        total = 0.0
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def fill(broker: Broker, topic: str, codec: str, records: int) -> None:
    """A topic with as many records."""
    broker.create_topic(topic, PARTITIONS)
    properties = [f"bootstrap.servers={broker.bootstrap}", f"compression.type={codec}"]
    sizes = ["--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
    kafka.run_java_tool(TOOL, ["--topic", topic, *sizes, "--producer-props", *properties])
    written = sum(broker.end_offsets(topic, PARTITIONS))
    if written != records:
        raise RuntimeError(f"{broker.name}: {topic} has {written} of {records} records")


@contextmanager
def sessions(contestants: Sequence[Contestant], brokers: dict[str, Broker]) -> Iterator[list[Session]]:
    """A Spark for each contestant."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-read-")))
        python, jars = older.python(), older.connector()
        started = []
        for contestant in contestants:
            own_jars = jars if contestant.source == "kafka" else []
            session = Session(contestant, brokers[contestant.broker].bootstrap, directory, python, own_jars)
            stack.callback(session.close)
            started.append(session)
        yield started


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case for each contestant, in turns")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=JOBS)
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    records = options.records // QUICK_SHARE if options.quick else options.records
    runs = 1 if options.quick else options.runs
    results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    with running([OURS, KAFKA], options.dir) as started:
        brokers = {broker.name: broker for broker in started}
        topics = {codec: f"spark-read-{codec}" for codec in options.codecs}
        for codec, topic in topics.items():
            for broker in started:
                fill(broker, topic, codec, records)
        with sessions(CONTESTANTS, brokers) as contestants:
            for codec, topic in topics.items():
                for session in contestants:
                    seen = session.run("batch", topic, count=True)
                    if seen != records:
                        raise RuntimeError(f"{session.contestant.name} reads {seen} of {records} records")
                for job in options.jobs:
                    case = f"{job}, {'plain' if codec == 'none' else codec}"
                    for _ in range(WARM_UPS):
                        for session in contestants:
                            session.run(job, topic)
                    for _ in range(runs):
                        for session in contestants:
                            result = measure(session, job, topic, records)
                            results[case][session.contestant.name].append(result)
                            print(f"{session.contestant.name:20} {case:24} {result}", file=sys.stderr, flush=True)
    show(results)


def measure(session: Session, job: str, topic: str, records: int) -> Result:
    """One run."""
    before = session.cpu_seconds()
    seconds = session.run(job, topic)
    return Result(records / seconds / 1e6, (session.cpu_seconds() - before) / records * 1e6)


def show(results: dict[str, dict[str, list[Result]]]) -> None:
    """Medians and ratios, above 1 where kafkalog is better."""
    names = [contestant.name for contestant in CONTESTANTS]
    ours = names[1:]
    heading = [*names, *(f"{name} : {CONNECTOR.name}" for name in ours)]
    for what, field in (("million rows/s", "rate"), ("CPU s / million rows", "cpu")):
        rows = []
        for case, found in results.items():
            medians = {name: report.median([getattr(each, field) for each in found[name]]) for name in names}
            ratios = [medians[name] / medians[CONNECTOR.name] for name in ours]
            better = [ratio if field == "rate" else 1 / ratio for ratio in ratios]
            rows.append([case, *(f"{medians[name]:.2f}" for name in names), *(f"{ratio:.2f}" for ratio in better)])
        print(f"\n{report.table([what, *heading], rows)}")
    print(f"\n{report.machine()}; PySpark {older.PYSPARK}, {KAFKA}")


if __name__ == "__main__":
    main()
