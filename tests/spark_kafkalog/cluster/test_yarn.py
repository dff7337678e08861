"""Test applications on YARN in client and in cluster mode, with an archive of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.cache import require
from peers.clusters import yarn
from peers.clusters.spark_cluster import spark_home
from tests.spark_kafkalog.cluster.conftest import ROWS
from tests.spark_kafkalog.cluster.page import Page
from tests.spark_kafkalog.cluster.submitting import CHECK
from tests.spark_kafkalog.topics import Topics

# Several minutes: YARN starts containers one after another.
pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1200)]
CLIENT = "PYSPARK_PYTHON=./environment/bin/python spark-submit --master yarn --archives kafkalog-env.tar.gz#environment"


@pytest.fixture(scope="module")
def running_yarn(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[yarn.Yarn]:
    require(yarn.missing())
    with yarn.Yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


def test_the_page(
    running_yarn: yarn.Yarn, environments: dict[str, Path], topics: Topics, filled: str, tmp_path: Path
) -> None:
    """The page's commands with an archive; the driver is beside the executors in cluster mode, and here otherwise."""
    settings = {
        "spark.executor.instances": "1",
        "spark.executor.memoryOverhead": "640m",
        "spark.yarn.am.memory": "256m",
        # Spark would upload all of its jars for each application.
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{tmp_path}/staging",
    }
    page = Page(tmp_path, environments, "yarn", topics.bootstrap, filled, settings)
    page.environment["HADOOP_CONF_DIR"] = str(running_yarn.configuration)
    shown = page.commands(without="--master spark:")
    packing = [each.command for each in shown if "kafkalog.zip" not in each.command and "yarn" not in each.command]
    [in_cluster] = [each.command for each in shown if "--master yarn" in each.command]
    for command in packing:
        page.run(command)
    try:
        assert page.run(f"{CLIENT} app.py")[1] == str(ROWS)
        printed, _ = page.run(f"{CLIENT} {CHECK} --bootstrap-server {topics.bootstrap}")
        assert printed.splitlines()[-1] == "nothing is wrong"
        # YARN unpacks the archive for the driver.
        page.run("mv environment elsewhere")
        assert page.run(in_cluster)[1] == str(ROWS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{running_yarn.container_logs()}") from None
