"""Test the source, the sink, loads and jobs on a standalone cluster, and that the check finds what keeps them off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

import spark_kafkalog.jobs
from peers.clusters.spark_cluster import StandaloneCluster
from tests.spark_kafkalog.cluster.conftest import ROWS
from tests.spark_kafkalog.cluster.environments import OTHER_VERSION
from tests.spark_kafkalog.cluster.submitting import APPLICATION, CHECK, Submitted, command, submit, with_path
from tests.spark_kafkalog.jobs.reading import records_of
from tests.spark_kafkalog.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
TOTAL = [ROWS, ROWS * (ROWS - 1) // 2]
JOBS = Path(spark_kafkalog.jobs.__file__).parent
CHECKED = Path(__file__).with_name("checked.py")


def check_application(done: Submitted, topics: Topics, target: str) -> None:
    """The application has read all records twice, and has written its own."""
    said = done.told
    assert said["batch"] == said["stream"] == TOTAL
    assert sorted(int(value or b"") for _, value, _ in records_of(topics.bootstrap, target)) == list(range(100))


def test_an_installed_environment(
    cluster: StandaloneCluster, programs: list[Path], topics: Topics, filled: str, tmp_path: Path
) -> None:
    """A Python with kafkalog on each host, named by PYSPARK_PYTHON, runs batch, stream and sink."""
    target = topics.create("target", 2)
    words = command(cluster.master, APPLICATION, [topics.bootstrap, filled, target, str(tmp_path)])
    environment = {"PYSPARK_PYTHON": "python-right", "PATH": with_path(programs[0])}
    check_application(submit(words, tmp_path / "work", environment), topics, target)


# Each case: the variables of the driver, settings, whether tasks run, and a text of each problem that is found.
CASES: dict[str, tuple[dict[str, str], dict[str, str], bool, list[str]]] = {
    "one executor without": (
        {"PYSPARK_PYTHON": "python-one-without"},
        {},
        False,
        ["python-one-without on 127.0.0.3 has no kafkalog"],
    ),
    "right": ({"PYSPARK_PYTHON": "python-right"}, {}, True, []),
    "setting alone": (
        {"PYSPARK_DRIVER_PYTHON": "python-nowhere-right"},
        {"spark_pyspark_python": "python-right"},
        False,
        ["Spark looks for sources with python-nowhere-right (PYSPARK_DRIVER_PYTHON), which has no kafkalog"],
    ),
    "one executor with another version": (
        {"PYSPARK_PYTHON": "python-one-other"},
        {},
        True,
        [f"kafkalog is {OTHER_VERSION} on 127.0.0.3"],
    ),
    "absent on one executor": (
        {"PYSPARK_PYTHON": "python-one-absent"},
        {},
        False,
        ["python-one-absent does not run on 127.0.0.3"],
    ),
    "driver's own on all": (
        {"PYSPARK_DRIVER_PYTHON": "python-of-driver", "PYSPARK_PYTHON": "python-right"},
        {},
        False,
        ["python-of-driver does not run on 127.0.0.2, 127.0.0.3"],
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_the_check_agrees_with_what_happens(
    case: str, cluster: StandaloneCluster, programs: list[Path], topics: Topics, filled: str, tmp_path: Path
) -> None:
    variables, settings, works, problems = CASES[case]
    # A task that fails on one executor would be tried again on the other one.
    settings = {"spark_task_maxFailures": "1", **settings}
    words = command(cluster.master, CHECKED, [str(CHECK), topics.bootstrap, filled], **settings)
    said: dict[str, Any] = submit(words, tmp_path, {**variables, "PATH": with_path(programs[0])}).told
    found = [each["text"] for each in said["findings"] if each["is_problem"]]
    assert len(found) == len(problems), found
    assert all(told.startswith(expected) for told, expected in zip(found, problems, strict=True)), found
    assert said["code"] == (1 if problems else 0)
    assert {each["host"] for each in said["executors"]} == set(cluster.hosts)
    if works:
        assert said["rows"] == ROWS
    else:
        assert said["rows"] is None, "the check says that this does not work"


@pytest.mark.exhaustive
def test_a_load_and_a_job(
    cluster: StandaloneCluster, programs: list[Path], topics: Topics, filled: str, tmp_path: Path
) -> None:
    environment = {"PYSPARK_PYTHON": "python-right", "PATH": with_path(programs[0])}
    options = ["--bootstrap-server", topics.bootstrap, "--topic", filled]
    loading = command(cluster.master, JOBS / "load.py", [*options, "--to", str(tmp_path / "loads")])
    done = submit(loading, tmp_path / "work", environment)
    assert done.code == 0, done.errors[-6000:]
    loaded = pyarrow.dataset.dataset(tmp_path / "loads" / filled, partitioning="hive").to_table()
    assert sorted(int(value) for value in loaded["value"].to_pylist()) == list(range(ROWS))
    places = ["--output", "views", "--rejected", "rejected", "--checkpoint", "checkpoint"]
    views = command(cluster.master, JOBS / "page_views.py", [*options, *places, "--json"])
    rejected = submit(views, tmp_path / "work", environment).told["rejected"]
    assert list(rejected.values()) == [ROWS]


@pytest.mark.exhaustive
def test_local_cluster(programs: list[Path], topics: Topics, filled: str, tmp_path: Path) -> None:
    """Executors as processes of the driver's machine, which Spark has for tests."""
    words = command("local-cluster[2,1,1024]", CHECKED, [str(CHECK), topics.bootstrap, filled])
    said = submit(words, tmp_path, {"PYSPARK_PYTHON": "python-right", "PATH": with_path(programs[0])}).told
    assert (said["code"], said["rows"], len(said["executors"])) == (0, ROWS, 2)


def test_python_applications_have_no_cluster_mode(cluster: StandaloneCluster, tmp_path: Path) -> None:
    words = command(cluster.master, APPLICATION, options=["--deploy-mode", "cluster"])
    done = submit(words, tmp_path, {})
    assert done.code != 0
    assert "Cluster deploy mode is currently not supported for python applications on standalone" in done.errors
