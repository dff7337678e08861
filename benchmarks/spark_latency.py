"""Milliseconds from a record to its row: steady streaming with the kafkalog source and with Spark's Kafka connector.

Run from the repository: `python -m benchmarks.spark_latency [--quick]`.

A producer (librdkafka, `linger.ms=0`, `acks=1`) writes records at a steady rate, each holding the time at which it
was made. A query with a trigger of 100 ms collects the rows of each batch in `foreachBatch`; the latency of a record
is the time at which its batch is in the driver's hands less the record's own. The contestants and their Sparks are
those of `benchmarks.spark_read`; they take turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, Broker, running
from benchmarks.peers.spark import SparkProcess
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared
from benchmarks.spark_read import CONNECTOR, CONTESTANTS, KAFKA
from tests.spark_kafkalog import older

SOURCES = tuple(contestant for contestant in CONTESTANTS if contestant.source != "ceiling")


@contextmanager
def producing(broker: Broker, topic: str, rate: int) -> Iterator[None]:
    """Produce records at a steady rate, from a thread, until the block ends."""
    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": 1})
        due = time.monotonic()
        while not stop.wait(max(due - time.monotonic(), 0)):
            producer.produce(topic, str(time.time_ns()).encode())
            producer.poll(0)
            due += 1 / rate
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--seconds", type=float, default=30, help="measured, of each run")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds before, of each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--trigger", default="100 milliseconds")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one short run: a look, not a measurement")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the tables; return the results."""
    options = arguments(words)
    runs, seconds, warm_up = (1, 5.0, 5.0) if options.quick else (options.runs, options.seconds, options.warm_up)
    found: dict[str, list[tuple[float, float, float]]] = {contestant.name: [] for contestant in SOURCES}
    with ExitStack() as stack:
        brokers = {broker.name: broker for broker in stack.enter_context(running([OURS, KAFKA], options.dir))}
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-latency-")))
        sparks = {}
        for contestant in SOURCES:
            jars = older.connector() if contestant.source == "kafka" else []
            module = "benchmarks.jobs.spark_latency"
            sparks[contestant.name] = SparkProcess(contestant.name, module, directory, older.python(), jars)
            stack.callback(sparks[contestant.name].close)
        for run in range(runs):
            for contestant in SOURCES:
                broker = brokers[contestant.broker]
                topic = f"latency-{run}-{contestant.name.replace(' ', '-')}"
                broker.create_topic(topic, options.partitions)
                order = {
                    "source": contestant.source, "topic": topic, "bootstrap": broker.bootstrap,
                    "trigger": options.trigger, "warm_up": warm_up, "seconds": seconds,
                }  # fmt: skip
                with producing(broker, topic, options.rate):
                    answer = sparks[contestant.name].ask(order)
                latencies = sorted(answer["latencies"])
                if not latencies:
                    raise RuntimeError(f"{contestant.name}: no rows came")
                p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
                found[contestant.name].append((p50, p99, answer["batches"] / seconds))
                print(f"{contestant.name:20} p50 {p50:.0f} ms, p99 {p99:.0f} ms", file=sys.stderr, flush=True)
    names = [contestant.name for contestant in SOURCES]
    rows = []
    for index, what in enumerate(("p50, ms", "p99, ms", "batches a second")):
        medians = {name: report.median([each[index] for each in found[name]]) for name in names}
        ratios = [f"{medians[name] / medians[CONNECTOR.name]:.2f}" for name in names[1:]]
        rows.append([what, *(f"{medians[name]:.1f}" for name in names), *ratios])
    print(report.table(["record to row", *names, *(f"{name} : {CONNECTOR.name}" for name in names[1:])], rows))
    print(
        f"\n{report.machine()}; PySpark {older.PYSPARK}, {KAFKA}; {options.rate} records/s, trigger {options.trigger}"
    )
    return findings(found)


def findings(results: Mapping[str, Sequence[tuple[float, float, float]]]) -> list[Finding]:
    """Turn what was measured into results: p50, p99 and batches a second of each run, by contestant."""
    found: list[Finding] = []
    for ours, source in (("kafkalog", ""), ("kafkalog from Kafka", " from Apache Kafka")):
        for at, (what, unit, better) in enumerate(
            (("p50", "ms", LOWER), ("p99", "ms", LOWER), ("micro-batches", "a second", HIGHER))
        ):
            figures = {name: [each[at] for each in taken] for name, taken in results.items()}
            peers = {CONNECTOR.name: "Spark's connector"}
            found += compared(f"{what}{source}", unit, figures, peers, ours=ours, better=better)
    return found


if __name__ == "__main__":
    main()
