"""Fixtures: loads into a directory of this machine and into a real HDFS, and Spark that reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peers.cache import require
from peers.toolchains import java
from tests.spark_kafkalog.load.loading import Loading
from tests.spark_kafkalog.topics import Topics


@pytest.fixture
def local_target(tmp_path: Path) -> str:
    """Return a directory that does not exist yet."""
    return str(tmp_path / "loads")


@pytest.fixture
def loading(topics: Topics, target: str) -> Loading:
    """Run the test with loads into a directory and into HDFS."""
    return Loading(topics, target)


@pytest.fixture
def local_loading(topics: Topics, local_target: str) -> Loading:
    """Run the test with loads into a directory."""
    return Loading(topics, local_target)


@pytest.fixture
def hdfs_loading(topics: Topics, hdfs_target: str) -> Loading:
    """Run the test with loads into HDFS."""
    return Loading(topics, hdfs_target)


@pytest.fixture
def run_spark(processes: None, tmp_path: Path) -> Callable[[str], Any]:
    """Return the totals of a directory or hdfs:// URL, as Spark reads them in another process."""
    require(java.missing())

    def run(url: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark_kafkalog.load.read_with_spark", str(tmp_path), url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    return run
