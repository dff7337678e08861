"""Test applications on YARN in client and in cluster mode, with an archive of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

import spark_kafkalog.jobs
from peers.cache import require
from peers.clusters import yarn
from peers.clusters.spark_cluster import spark_home
from tests.spark_kafkalog.cluster.conftest import ROWS
from tests.spark_kafkalog.cluster.page import Page
from tests.spark_kafkalog.cluster.submitting import APPLICATION, CHECK
from tests.spark_kafkalog.jobs.reading import records_of
from tests.spark_kafkalog.topics import Topics

# Several minutes: YARN starts containers one after another.
pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1200)]
SUBMIT = "PYSPARK_PYTHON=./environment/bin/python spark-submit --master yarn --archives kafkalog-env.tar.gz#environment"
MODES = {"client": SUBMIT, "cluster": f"{SUBMIT} --deploy-mode cluster"}
JOBS = Path(spark_kafkalog.jobs.__file__).parent


@pytest.fixture(scope="module")
def running_yarn(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[yarn.Yarn]:
    require(yarn.missing())
    with yarn.Yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture
def page(running_yarn: yarn.Yarn, environments: dict[str, Path], topics: Topics, filled: str, tmp_path: Path) -> Page:
    """Return the page's commands for YARN; those that pack the environment have run."""
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
    for each in page.commands(without="--master spark:"):
        if "kafkalog.zip" not in each.command and "yarn" not in each.command:
            page.run(each.command)
    return page


def submit(page: Page, running_yarn: yarn.Yarn, command: str) -> tuple[str, str | None]:
    """Run a command of the page; a failure shows what the containers have written."""
    try:
        return page.run(command)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{running_yarn.container_logs()}") from None


def test_the_page(running_yarn: yarn.Yarn, page: Page, topics: Topics) -> None:
    """The page's commands with an archive; the driver is beside the executors in cluster mode, and here otherwise."""
    shown = page.commands(without="--master spark:")
    [in_cluster] = [each.command for each in shown if "--master yarn" in each.command]
    assert submit(page, running_yarn, f"{SUBMIT} app.py")[1] == str(ROWS)
    printed, _ = submit(page, running_yarn, f"{SUBMIT} {CHECK} --bootstrap-server {topics.bootstrap}")
    assert printed.splitlines()[-1] == "nothing is wrong"
    # YARN unpacks the archive for the driver.
    page.run("mv environment elsewhere")
    assert submit(page, running_yarn, in_cluster)[1] == str(ROWS)


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_the_sink_a_load_and_a_job(
    mode: str, running_yarn: yarn.Yarn, page: Page, topics: Topics, filled: str, tmp_path: Path
) -> None:
    """The test reads the outputs itself, because a driver in the cluster prints into its container."""
    numbers, target, done = list(range(ROWS)), topics.create("target", 2), tmp_path / "done"
    submit(page, running_yarn, f"{MODES[mode]} {APPLICATION} {topics.bootstrap} {filled} {target} {done}")
    streamed = pyarrow.dataset.dataset(done / "parquet").to_table()
    assert sorted(int(value) for value in streamed["value"].to_pylist()) == numbers
    assert sorted(int(value or b"") for _, value, _ in records_of(topics.bootstrap, target)) == list(range(100))

    options = f"--bootstrap-server {topics.bootstrap} --topic {filled}"
    submit(page, running_yarn, f"{MODES[mode]} {JOBS / 'load.py'} {options} --to {done / 'loads'}")
    loaded = pyarrow.dataset.dataset(done / "loads" / filled, partitioning="hive").to_table()
    assert sorted(int(value) for value in loaded["value"].to_pylist()) == numbers

    places = " ".join(f"--{name} {done / name}" for name in ("output", "rejected", "checkpoint"))
    submit(page, running_yarn, f"{MODES[mode]} {JOBS / 'page_views.py'} {options} {places}")
    # The topic has no page views: the job rejects each record, and tells why beside it.
    rejected = pyarrow.dataset.dataset(done / "rejected").to_table()
    assert sorted(int(value) for value in rejected["value"].to_pylist()) == numbers
