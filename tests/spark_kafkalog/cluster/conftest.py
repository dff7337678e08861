"""Fixtures: a standalone cluster whose hosts have different Python environments, and a topic to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.cache import require
from peers.clusters.spark_cluster import StandaloneCluster
from peers.toolchains import java
from tests.spark_kafkalog.class_data import short_lived
from tests.spark_kafkalog.cluster.environments import MAKERS
from tests.spark_kafkalog.cluster.submitting import with_path
from tests.spark_kafkalog.topics import Topics, numbers

ROWS = 1000
PYTHONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "python-right": ("with", "with", "with"),
    "python-nowhere-right": ("without", "without", "without"),
    "python-one-without": ("with", "with", "without"),
    "python-one-other": ("with", "with", "other"),
    "python-one-absent": ("with", "with", None),
    "python-of-driver": ("with", None, None),
}
"""Names of a Python in PATH, with the environment behind it on the driver and on the two workers."""


@pytest.fixture(scope="session")
def environments(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the interpreters of environments with kafkalog, without it, and with another version of it."""
    directory = tmp_path_factory.mktemp("environments")
    return {name: make(directory / name) for name, make in MAKERS.items()}


@pytest.fixture(scope="session")
def programs(environments: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a directory for the PATH of the driver and of each worker, with the programs of PYTHONS."""
    directories = [tmp_path_factory.mktemp("programs") for _ in range(3)]
    for name, behind in PYTHONS.items():
        for directory, environment in zip(directories, behind, strict=True):
            if environment is not None:
                program = directory / name
                program.write_text(f'#!/bin/sh\nexec {environments[environment]} "$@"\n')
                program.chmod(0o755)
    return directories


@pytest.fixture(scope="session")
def cluster(programs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Run a master and two workers."""
    require(java.missing())
    paths = [{"PATH": with_path(each)} for each in programs[1:]]
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), paths, jvm_options=short_lived()) as running:
        yield running


@pytest.fixture(scope="session")
def filled(topics: Topics) -> str:
    """Return a topic with the numbers below ROWS in two partitions."""
    name = topics.create("cluster", 2)
    topics.produce(name, numbers(ROWS))
    return name
