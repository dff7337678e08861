"""Write the archive of a driver's classes: `python -m tests.spark_kafkalog.class_data.make`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.spark_kafkalog.class_data import archive, queries
from tests.spark_kafkalog.jobs.submitting import SPARK_SUBMIT, environment
from tests.spark_kafkalog.session import session_options
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.kafkalog_broker import KafkalogBroker

ROOT = Path(__file__).parents[3]
DEADLINE_S = 240.0
OPTIONS = "spark.driver.extraJavaOptions"


def main() -> int:
    """Unless there is one, run queries in a driver that writes the archive when it ends; return the exit code."""
    file = archive()
    if file.exists():
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, KafkalogBroker(Path(name) / "broker") as broker:
        directory = Path(name)
        topics = Topics(broker.bootstrap)
        topic = topics.create("classes", 2)
        topics.produce(topic, numbers(10))
        written = directory / file.name
        settings = session_options(directory)
        settings[OPTIONS] += f" -XX:ArchiveClassesAtExit={written}"
        words = [word for item in settings.items() for word in ("--conf", "=".join(item))]
        done = subprocess.run(
            [str(SPARK_SUBMIT), "--master", "local[2]", *words, queries.__file__, broker.bootstrap, topic, name],
            env=os.environ | environment() | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode != 0 or not written.exists():
            print(f"no archive of Spark's classes was written: {done.stdout[-2000:]}")
            return 1
        # Tests of other processes may look for it: it is there as a whole or not at all.
        beside = file.with_suffix(f".{os.getpid()}")
        beside.write_bytes(written.read_bytes())
        beside.rename(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
