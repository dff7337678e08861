"""Test that with Spark Connect the client names the format, and the server finds the source."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from peers.cache import require
from peers.toolchains import java
from spark_kafkalog import offsets, redaction
from tests.spark_kafkalog.topics import Topics, numbers

ROOT = Path(__file__).parents[3]


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_connect(topics: Topics, tmp_path: Path) -> None:
    require(java.missing())
    require(None if find_spec("grpc") else "missing because Spark Connect needs grpcio")
    topic = topics.create("connect", 2)
    values = numbers(10, 10)
    topics.produce(topic, values[:6], partition=0)
    topics.produce(topic, values[6:], partition=1)
    command = [sys.executable, "-m", "tests.spark_kafkalog.drill.connect", topics.bootstrap, topic, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["columns"] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert found["batch"] == found["stream"] == [value.decode() for value in values]
    assert found["chosen"] == [["offset"], 10]
    assert found["pushed"] == 3
    assert found["redacted"] == f"(?:(?i)url)|{redaction.SETTING}"
    assert found["terminated"]
    # The client gets the text of an offset, where a classic session gets the document.
    assert offsets.from_json(json.loads(found["end"])) == {(topic, 0): 6, (topic, 1): 4}
    zero = {f"{which}OffsetsBehindLatest": "0" for which in ("min", "max")}
    assert found["behind"] == [zero | {"avgOffsetsBehindLatest": "0.0"}]
    assert "One of the following options must be specified for Kafka source" in found["error"]
