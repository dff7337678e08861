"""Run the commands of docs/how-to/on-a-cluster.md on a standalone cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog.records import warm
from peers.clusters.spark_cluster import StandaloneCluster
from tests.spark_kafkalog.cluster.conftest import ROWS
from tests.spark_kafkalog.cluster.page import Page
from tests.spark_kafkalog.topics import Topics

# Several minutes: each command of the page starts an application.
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1200)]
_VALUES = re.compile(r"\S*/bin/python|[0-9a-z.]*:\d+|\d+(\.[\dm]+)*m?")
"""Paths, addresses, versions and sizes, which differ from machine to machine."""


def normal(lines: list[str]) -> list[str]:
    return [" ".join(_VALUES.sub("…", line).split()) for line in lines]


def test_the_page(
    cluster: StandaloneCluster, environments: dict[str, Path], topics: Topics, filled: str, tmp_path: Path
) -> None:
    # The page shows hosts that have compiled kernels.
    warm.warm(["reading"])
    settings = {"spark.driver.host": "127.0.0.1"}
    page = Page(tmp_path, environments, cluster.master, topics.bootstrap, filled, settings)
    shown = page.commands(without="--master yarn")
    assert len(shown) == 8
    for each in shown:
        printed, rows = page.run(each.command)
        if each.command.endswith((" app.py", " registers.py")):
            assert rows == str(ROWS), each.command
        if "check" in each.command:
            assert printed.splitlines()[-1] == "nothing is wrong"
        if each.printed:
            assert normal(printed.splitlines()) == normal(each.printed)
    cluster.remove_applications()
