"""JSON values as typed columns: `valueFormat=json` against Spark's `from_json`, rows a second.

Run from the repository: `python -m benchmarks.spark_values [--records N] [--quick]`.

Apache Kafka holds one topic of two partitions with JSON objects of about 130 bytes and six fields, of which the schema
names all. One Spark (local[2], PySpark 4.2, for which Spark's Kafka connector is published) reads it into the `noop`
sink by turns:

- connector: `format("kafka")`, then `from_json` on the value;
- kafkalog, from_json: `format("kafkalog")`, then the same;
- kafkalog, valueFormat: typed columns by the source itself, with the bad records' column;
- log directory: the same from the broker's log directory, while it runs.

After two rounds to warm up, the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recording.findings import Finding, compared

ROOT = Path(__file__).parents[1]
TOPIC = "values"
DDL = "id BIGINT, user STRING, price DOUBLE, at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<x: INT, y: INT>"
WARM_UPS, ROUNDS = 2, 5
QUICK_SHARE = 10
CONNECTOR = "connector, from_json"
TITLES = {
    "kafkalog, valueFormat": "`valueFormat=json`",
    "kafkalog, from_json": "`from_json` over this source",
    "log directory": "`valueFormat=json` from the log directory",
}
"""The names of our contestants in the results."""


def document(n: int) -> bytes:
    """Make a record's value."""
    place = {"x": n % 1000, "y": -n % 77}
    at = f"2024-01-02T03:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}Z"
    found = {
        "id": n,
        "user": f"user-{n % 5000}",
        "price": n % 9999 / 100,
        "at": at,
        "tags": ["a", "bc"],
        "place": place,
    }
    return json.dumps(found).encode()


def fill(bootstrap: str, records: int) -> None:
    """Make the topic, with its records."""
    from confluent_kafka import Producer

    from tests.spark_kafkalog.topics import Topics

    Topics(bootstrap).create_named(TOPIC, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for n in range(records):
        while True:
            try:
                producer.produce(TOPIC, document(n), partition=n % 2)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("records could not be produced")


def measure(bootstrap: str, log_dir: str, jars: str, records: int, rounds: int, answer: Path) -> None:
    """Run the contestants, in PySpark 4.2, and write the seconds of each round to a file."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812

    from tests.spark_kafkalog.session import start_session

    spark = start_session(Path(tempfile.mkdtemp()), {"spark.driver.memory": "2g", "spark.jars": jars}, measured=True)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    typed = {"valueFormat": "json", "valueSchema": DDL, "columnNameOfCorruptRecord": "bad"}

    def parsed(source: str) -> DataFrame:
        frame = spark.read.format(source).options(**options).load()
        return frame.select("offset", F.from_json(F.col("value").cast("string"), f"{DDL}, bad STRING", {
            "columnNameOfCorruptRecord": "bad"}).alias("value"))  # fmt: skip

    def chosen(**more: str) -> DataFrame:
        return spark.read.format("kafkalog").options(**typed, **more).load().select("offset", "value", "bad")

    contestants: dict[str, Callable[[], Any]] = {
        CONNECTOR: lambda: parsed("kafka"),
        "kafkalog, from_json": lambda: parsed("kafkalog"),
        "kafkalog, valueFormat": lambda: chosen(**options),
        "log directory": lambda: chosen(path=log_dir, subscribe=TOPIC),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(WARM_UPS + rounds):
        for name, make in contestants.items():
            if not round_ and make().where("value.id IS NOT NULL").count() != records:
                raise RuntimeError(f"{name} does not read what was written")
            began = time.perf_counter()
            make().write.format("noop").mode("overwrite").save()
            if round_ >= WARM_UPS:
                times[name].append(time.perf_counter() - began)
    answer.write_text(json.dumps(times))
    spark.stop()


def show(times: Mapping[str, Sequence[float]], records: int) -> None:
    """Print the table."""
    base = statistics.median(times[CONNECTOR])
    print(f"\n{records:,} records\n\n| | million rows/s | to the connector |\n|--|--|--|")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"| {name} | {records / median / 1e6:.2f} | {base / median:.2f} |")


def findings(times: Mapping[str, Sequence[float]], records: int) -> list[Finding]:
    """Turn the seconds of each round, by contestant, into results."""
    rates = {name: [records / seconds for seconds in taken] for name, taken in times.items()}
    peers = {CONNECTOR: "from_json over Spark's connector"}
    return [each for ours, title in TITLES.items() for each in compared(title, "rows/s", rates, peers, ours=ours)]


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=ROUNDS, help="rounds that count (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round of fewer records: a look, not a measurement")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.measure:
        bootstrap, log_dir, jars, answer = arguments.measure
        measure(bootstrap, log_dir, jars, arguments.records, arguments.runs, Path(answer))
        return []
    if arguments.quick:
        arguments.records, arguments.runs = arguments.records // QUICK_SHARE, 1
    from peers.brokers.kafka import ApacheKafka
    from tests.spark_kafkalog import older

    python = older.python()
    jars = ",".join(map(str, older.connector()))
    with ApacheKafka() as kafka, tempfile.TemporaryDirectory(prefix="spark-values-") as directory:
        fill(kafka.bootstrap, arguments.records)
        environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
        answer = Path(directory) / "seconds.json"
        sizes = ["--records", str(arguments.records), "--runs", str(arguments.runs)]
        command = [str(python), "-m", "benchmarks.spark_values", *sizes, "--measure"]
        command += [kafka.bootstrap, str(kafka.log_dir), jars, str(answer)]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
        times = json.loads(answer.read_text())
    show(times, arguments.records)
    return findings(times, arguments.records)


if __name__ == "__main__":
    main()
