"""Test that Spark reads the same by `kafkalog-python` and by the daemon with imports, and what its processes have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers import require
from peers.toolchains import java
from spark_kafkalog.compat.workers import starting
from tests.spark_kafkalog.starting.support import LAUNCHER, LINUX
from tests.spark_kafkalog.topics import Topics

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spark, pytest.mark.timeout(300)]
AHEAD = ["numba", "pyarrow", "pyspark", "spark_kafkalog.executor.range_reader"]


def run(directory: Path, topics: Topics, python: str, *settings: str) -> dict[str, Any]:
    require(java.missing())
    topic = topics.create("starting", 2)
    topics.produce(topic, [{"value": b"a", "partition": 0}, {"value": b"b", "partition": 0}])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_kafkalog.starting.program", str(directory), topics.bootstrap, topic,
         python, *settings],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KAFKALOG_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["batch"] == found["stream"] == ["a", "b"]
    for _, _, is_worker, _ in found["workers"]:
        assert is_worker
    assert len({number for *_, number in found["workers"]}) == 2, "workers have the same random numbers"
    return found


@LINUX
def test_queries_by_the_launcher(topics: Topics, tmp_path: Path) -> None:
    found = run(tmp_path, topics, str(LAUNCHER))
    assert starting.STREAM_PLANNER in found["launchers"]
    assert [each[0] for each in found["workers"]] == [AHEAD, AHEAD]
    assert "pyspark.zip" not in found["workers"][0][1]


def test_queries_by_the_daemon_alone(topics: Topics, tmp_path: Path) -> None:
    found = run(tmp_path, topics, sys.executable, "spark.python.daemon.module=spark_kafkalog.daemon")
    assert found["launchers"] == []
    assert [each[0] for each in found["workers"]] == [AHEAD, AHEAD]
