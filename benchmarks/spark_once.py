"""The cost of exactly once: micro-batches out of Spark with `kafka.transactional.id`, beside the same without it.

Run from the repository: `python -m benchmarks.spark_once [--quick]`.

One Spark (local[2]) and one kafkalog broker. Records of 100 random bytes lie in a topic of two partitions; a query with
Trigger.AvailableNow copies them to a new topic, in batches of a fixed number of records. Small batches show what a
batch costs apart from its records, large ones what a record costs. Plain and transactional runs take turns, after one
warm-up of each. Shown are Spark's own figures: the median of the batches' `triggerExecution`, and of its part
`addBatch`, in which tasks run and the sink commits. The first batch of each run is left out: in it Spark starts
Python processes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from benchmarks.peers import report
from benchmarks.recording.findings import LOWER, Finding, compared
from kafkalog.client.producer import Producer
from tests.spark_kafkalog.session import start_session
from tests.spark_kafkalog.topics import Topics
from tests.support.kafkalog_broker import KafkalogBroker

PARTITIONS = 2
VALUE_BYTES = 100
MODES = ("plain", "transactional")


class Case(NamedTuple):
    """Records in a batch, and batches in a run."""

    records: int
    batches: int


CASES = (Case(100, 12), Case(10_000, 12), Case(500_000, 5))


class Result(NamedTuple):
    """Of one run, medians over its batches, milliseconds."""

    trigger: float
    add_batch: float


def fill(broker: KafkalogBroker, topics: Topics, case: Case) -> str:
    """Make a topic with the records of one run."""
    topic = topics.create("from", PARTITIONS)
    values = [os.urandom(VALUE_BYTES) for _ in range(10_000)]
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        left = case.records * case.batches
        while left > 0:
            producer.send_values(topic, values[: min(left, len(values))])
            left -= len(values)
    return topic


def measure(spark: SparkSession, broker: KafkalogBroker, source: str, target: str, case: Case, mode: str) -> Result:
    """Run a query once."""
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    options: dict[str, Any] = {**servers, "topic": target}
    if mode == "transactional":
        options["kafka.transactional.id"] = target
    frame = spark.readStream.format("kafkalog").options(**servers, subscribe=source, startingOffsets="earliest")
    rows = frame.schema("value BINARY").option("maxOffsetsPerTrigger", case.records).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format("kafkalog").options(**options).trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        batches = [each.durationMs for each in query.recentProgress if each.numInputRows][1:]
    return Result(median(each["triggerExecution"] for each in batches), median(each["addBatch"] for each in batches))


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="runs of each mode in each case, in turns")
    parser.add_argument("--quick", action="store_true", help="one run of each, without warm-up")
    options = parser.parse_args(words)
    runs, warm_ups = (1, 0) if options.quick else (options.runs, 1)
    found: dict[Case, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="spark-once-") as name:
        directory = Path(name)
        with KafkalogBroker(directory / "broker") as broker:
            topics = Topics(broker.bootstrap)
            spark = start_session(directory, {"spark.sql.streaming.numRecentProgressUpdates": "1000"}, measured=True)
            for case in CASES:
                source = fill(broker, topics, case)
                for run, mode in itertools.product(range(-warm_ups, runs), MODES):
                    result = measure(spark, broker, source, topics.create("to", PARTITIONS), case, mode)
                    print(f"{case.records:8} {mode:14} {run:2} {result}", file=sys.stderr, flush=True)
                    if run >= 0:
                        found[case][mode].append(result)
            spark.stop()
    show(found)
    print(f"\n{report.machine()}; {PARTITIONS} partitions, two tasks a batch")
    return findings(found)


def findings(results: Mapping[Case, Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    peers = {"plain": "the same without transactions"}
    found: list[Finding] = []
    for case, measured in results.items():
        batches = {mode: [each.trigger for each in taken] for mode, taken in measured.items()}
        tasks = {mode: [each.add_batch for each in taken] for mode, taken in measured.items()}
        title = f"a micro-batch of {case.records:,} records"
        found += compared(title, "ms", batches, peers, ours="transactional", better=LOWER)
        part = f"{title}: tasks and commit"
        found += compared(part, "ms", tasks, peers, ours="transactional", better=LOWER)
    return found


def show(found: dict[Case, dict[str, list[Result]]]) -> None:
    """Print medians over the runs, and what transactions add."""
    lines = []
    for case, results in found.items():
        for field in Result._fields:
            plain, transactional = (median(getattr(each, field) for each in results[mode]) for mode in MODES)
            name = {"trigger": "batch", "add_batch": "tasks and commit"}[field]
            lines.append(
                [f"{case.records:,}", name, f"{plain:.0f}", f"{transactional:.0f}", f"{transactional - plain:+.0f}"]
            )
    print(report.table(["records", "ms of", *MODES, "more"], lines))


if __name__ == "__main__":
    main()
