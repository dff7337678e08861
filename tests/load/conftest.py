"""Fixtures: file systems to load into, a directory of this machine and a real HDFS."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from peers import hdfs, java
from peers.cache import require
from tests.load.loading import Loading
from tests.spark.topics import Topics

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def running_hdfs(foreign_programs: None) -> Iterator[hdfs.Hdfs]:
    """Run one HDFS for all tests."""
    require(hdfs.missing())
    with hdfs.Hdfs() as running:
        yield running


@pytest.fixture(scope="session")
def topics(broker_address: str) -> Topics:
    return Topics(broker_address)


@pytest.fixture(params=["local", pytest.param("hdfs", marks=pytest.mark.peer)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a directory that does not exist yet."""
    if request.param == "local":
        return (tmp_path / "loads").as_uri()
    hdfs_target: str = request.getfixturevalue("hdfs_target")
    return hdfs_target


@pytest.fixture
def hdfs_target(running_hdfs: hdfs.Hdfs) -> str:
    """Return the URL of a directory of HDFS that does not exist yet."""
    return f"{running_hdfs.url}/test{next(_numbers)}/loads"


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
            [sys.executable, "-m", "tests.load.read_with_spark", str(tmp_path), url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    return run
