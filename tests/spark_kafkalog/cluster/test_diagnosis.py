"""Test what a survey's facts are taken for, and the settings that are named against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkalog.cluster import diagnosis, interpreters
from spark_kafkalog.cluster.diagnosis import diagnose
from spark_kafkalog.cluster.facts import Connection, Executor, Probe, Settings, Survey
from spark_kafkalog.cluster.report import render

PACKAGES = {"kafkalog": "1.0", "pyspark": "4.3.0", "pyarrow": "26.0", "numba": "0.68", "numpy": "2.4"}
GOOD = Probe("/env/python", "3.11.2", "/env/python", PACKAGES, "/env", "d1gest", True, 200 << 20)
RIGHT = Settings("spark://master:7077", environment={"PYSPARK_PYTHON": "/env/python"}, right_python="/right/python")
ABSENT = Probe("/env/python", problem="sh: 1: /env/python: not found")
WITHOUT = replace(GOOD, packages={**PACKAGES, "kafkalog": None}, source=None, problem="No module named 'kafkalog'")


def survey(driver: Probe = GOOD, *executors: Probe, settings: Settings = RIGHT, **more: Any) -> Survey:
    numbered = [Executor(f"host{number}", str(number), probe) for number, probe in enumerate(executors)]
    return Survey(settings, driver, numbered, **more)


def problems(found: Survey) -> list[tuple[str, str]]:
    return [(each.text, each.remedy) for each in diagnose(found) if each.is_problem]


def notes(found: Survey) -> list[str]:
    return [each.text for each in diagnose(found) if not each.is_problem]


def settings(
    environment: Mapping[str, str] = RIGHT.environment, /, *, master: str = RIGHT.master, **conf: str
) -> Settings:
    return replace(
        RIGHT,
        master=master,
        environment=environment,
        conf={key.replace("_", "."): value for key, value in conf.items()},
    )


def test_nothing_is_wrong() -> None:
    good = survey(GOOD, GOOD, GOOD)
    assert diagnose(good) == []
    assert render(good, []).splitlines()[-1] == "nothing is wrong"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            settings({"PYSPARK_PYTHON": "/env/bin/kafkalog-python"}),
            "Python processes are forked with their imports made",
        ),
        (settings(spark_python_daemon_module="spark_kafkalog.daemon"), "workers are forked with their imports made"),
        (settings(), "each Python process makes its imports; PYSPARK_PYTHON=kafkalog-python"),
    ],
)
def test_the_report_tells_who_makes_imports(found: Settings, expected: str) -> None:
    (line,) = [each for each in render(survey(settings=found), []).splitlines() if each.startswith("start ")]
    assert line.removeprefix("start").strip().startswith(expected)
    assert "start " not in render(survey(WITHOUT, settings=found), [])


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("python3", "the default")),
        ({"PYSPARK_PYTHON": "a"}, ("a", "PYSPARK_PYTHON")),
        ({"PYSPARK_PYTHON": "a", "PYSPARK_DRIVER_PYTHON": "b"}, ("b", "PYSPARK_DRIVER_PYTHON")),
    ],
)
def test_the_python_of_sources(environment: dict[str, str], expected: tuple[str, str]) -> None:
    assert interpreters.of_sources(environment) == expected


def test_a_driver_without_kafkalog() -> None:
    [(text, remedy)] = problems(survey(WITHOUT, WITHOUT, discovery="[DATA_SOURCE_NOT_FOUND]"))
    assert text == "Spark looks for sources with /env/python (PYSPARK_PYTHON), which has no kafkalog"
    assert remedy == "set PYSPARK_PYTHON=/right/python before the application starts"


def test_a_setting_that_does_not_count() -> None:
    given = settings({}, spark_pyspark_python="/env/python")
    [(text, remedy)] = problems(survey(replace(WITHOUT, command="python3"), settings=given))
    assert text.startswith("Spark looks for sources with python3 (the default)")
    assert remedy == (
        "set PYSPARK_PYTHON=/right/python before the application starts "
        "(sources are not looked for with spark.pyspark.python)"
    )


def test_cluster_mode_has_a_setting_of_its_own() -> None:
    given = replace(settings({}, master="yarn"), deploy_mode="cluster")
    [(_, remedy)] = problems(survey(replace(WITHOUT, command="python3"), settings=given))
    assert remedy == "--conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=/right/python"


def test_a_driver_whose_python_is_absent() -> None:
    [(text, remedy)] = problems(survey(ABSENT, ABSENT))
    assert text.endswith("which does not run on the driver: sh: 1: /env/python: not found")
    assert remedy == "set PYSPARK_PYTHON=/right/python before the application starts"


def test_an_archive_that_the_driver_has_not_unpacked() -> None:
    archived = settings({"PYSPARK_PYTHON": "./environment/bin/python"})
    [(_, remedy)] = problems(survey(replace(ABSENT, command="./environment/bin/python"), settings=archived))
    assert "ln -s DIRECTORY environment" in remedy


def test_a_broken_installation_is_told_apart_from_none() -> None:
    broken = replace(WITHOUT, packages=PACKAGES, problem="No module named 'pyarrow'")
    [(text, remedy)] = problems(survey(broken))
    assert text.endswith("which cannot import kafkalog: No module named 'pyarrow'")
    assert "pip install 'kafkalog[spark]'" in remedy


def test_another_source_s_failure_hides_all() -> None:
    failing = replace(GOOD, failing={"pyspark_other": "ImportError: no"})
    [(text, remedy)] = problems(survey(failing))
    assert "module pyspark_other fails there, so Spark finds no Python source at all: ImportError: no" in text
    assert "pyspark_other" in remedy


def test_spark_s_own_word_counts() -> None:
    [(text, _)] = problems(survey(GOOD, discovery="[DATA_SOURCE_NOT_FOUND] …"))
    assert text.endswith("which has kafkalog 1.0, but Spark said: [DATA_SOURCE_NOT_FOUND] …")


def test_executors_are_named_with_what_they_lack() -> None:
    found = problems(survey(GOOD, ABSENT, WITHOUT, GOOD, ABSENT))
    assert [text for text, _ in found] == [
        "/env/python does not run on host0, host3: sh: 1: /env/python: not found",
        "/env/python on host1 has no kafkalog",
    ]
    assert all("kafkalog spark pack" in remedy for _, remedy in found)


def test_the_driver_s_own_python_goes_to_executors() -> None:
    given = settings({"PYSPARK_DRIVER_PYTHON": "/env/python", "PYSPARK_PYTHON": "/other/python"})
    [(_, remedy)] = problems(survey(GOOD, ABSENT, settings=given))
    assert remedy == "unset PYSPARK_DRIVER_PYTHON, whose path executors run as well, and keep PYSPARK_PYTHON"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"python": "3.12.1"}, "Python is 3.12 on host1 and 3.11 on the driver, which Spark refuses"),
        ({"packages": {**PACKAGES, "kafkalog": "0.9"}}, "kafkalog is 0.9 on host1 and 1.0 on the driver"),
        ({"digest": "other"}, "kafkalog 1.0 on host1 has other files than on the driver"),
        ({"packages": {**PACKAGES, "pyspark": "4.2.0"}}, "PySpark is 4.2.0 on host1 and 4.3.0 on the driver"),
    ],
)
def test_differences_that_matter(changed: dict[str, Any], text: str) -> None:
    found = problems(survey(GOOD, GOOD, replace(GOOD, **changed)))
    assert [told for told, _ in found] == [text]


def test_differences_to_know_of() -> None:
    other = replace(GOOD, packages={**PACKAGES, "pyarrow": "25.0"}, kernels=False)
    found = survey(GOOD, other, unseen=2)
    assert problems(found) == []
    assert notes(found) == [
        "pyarrow is 25.0 on host0 and 26.0 on the driver",
        "compiled kernels are missing on host0: the first task there compiles them",
        "2 executors were busy or too late to be checked",
    ]
    assert render(found, diagnose(found)).splitlines()[-1] == "nothing is wrong"


def test_brokers_that_hosts_cannot_reach() -> None:
    reached = replace(GOOD, brokers=(Connection("bootstrap", "a:1", None), Connection("broker", "b:2", None)))
    cut_off = replace(GOOD, brokers=(Connection("bootstrap", "a:1", "Connection refused"),))
    hidden = replace(GOOD, brokers=(Connection("bootstrap", "a:1", None), Connection("broker", "b:2", "no name")))
    refused = replace(GOOD, brokers=(Connection("bootstrap", "a:1", None), Connection("cluster", "a:1", "no login")))
    found = problems(survey(reached, cut_off, hidden, refused, hidden))
    assert [text for text, _ in found] == [
        "host0 cannot reach a:1 (others reach it): Connection refused",
        "host1, host3 cannot reach b:2, which the brokers name as one of theirs: no name",
        "host2 reaches a:1, but gets no answer from the cluster: no login",
    ]
    for word, (_, remedy) in zip(["kafka.bootstrap", "advertised", "--command-config"], found, strict=True):
        assert word in remedy
    told = render(survey(reached, cut_off, hidden), [])
    assert "reaches a:1, b:2" in told
    assert "reaches no broker" in told
    assert "reaches a:1, but not all" in told


@pytest.mark.parametrize(
    ("master", "conf", "planned", "is_problem"),
    [
        ("yarn", {}, 768, False),
        ("yarn", {"spark_executor_cores": "4"}, 1536, True),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1023m"}, 1536, True),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1500"}, 1536, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1536"}, None, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1572864k"}, None, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1536mb"}, None, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1572863kb"}, 1536, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "1048576b"}, 1536, True),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memoryOverhead": "much"}, None, False),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_memory": "16g"}, None, False),
        ("yarn", {"spark_executor_cores": "4", "spark_task_cpus": "2"}, 1024, True),
        ("yarn", {"spark_executor_cores": "4", "spark_executor_minMemoryOverhead": "1536m"}, None, False),
        ("yarn", {"spark_executor_minMemoryOverhead": "little"}, None, False),
        ("k8s://host", {"spark_executor_memory": "2g"}, None, False),
        ("k8s://host", {"spark_executor_memory": "1g"}, 768, False),
        ("spark://master:7077", {"spark_executor_cores": "4"}, None, False),
    ],
)
def test_memory_outside_of_the_heap(master: str, conf: dict[str, str], planned: int | None, is_problem: bool) -> None:
    found = diagnose(survey(GOOD, GOOD, settings=settings(master=master, **conf)))
    expected = [] if planned is None else [(f"--conf spark.executor.memoryOverhead={planned}m", is_problem)]
    assert [(each.remedy, each.is_problem) for each in found] == expected


@pytest.mark.parametrize("master", ["yarn", "k8s://host"])
def test_memory_of_python_is_added_to_what_an_executor_has(master: str) -> None:
    """Spark asks YARN and Kubernetes for it, beside the overhead (`ResourceProfile.getResourcesForClusterManager`)."""
    given = {"spark_executor_cores": "4", "spark_executor_memory": "1g"}
    enough = settings(master=master, **given, spark_executor_pyspark_memory="2g")
    assert diagnose(survey(GOOD, GOOD, settings=enough)) == []
    little = settings(master=master, **given, spark_executor_pyspark_memory="512m")
    found = diagnose(survey(GOOD, GOOD, settings=little))
    assert [each.remedy for each in found] == ["--conf spark.executor.pyspark.memory=1152m"]
    assert [each.is_problem for each in found] == [True]


@pytest.mark.parametrize(
    ("limit", "told"),
    [("2048", None), ("2g", None), ("512", "512m"), ("512m", "512m"), ("536870912b", "512m"), ("0", None), ("x", None)],
)
def test_memory_of_python_in_spark_s_units(limit: str, told: str | None) -> None:
    """A bare number is in MiB."""
    found = notes(survey(settings=settings(spark_executor_pyspark_memory=limit, spark_executor_cores="4")))
    expected = (
        [] if told is None else [f"spark.executor.pyspark.memory is {told} for all Python workers of an executor"]
    )
    assert found == expected


def test_memory_to_plan_for_a_worker() -> None:
    small, large = replace(GOOD, memory=None), replace(GOOD, memory=300 << 20)
    assert diagnosis.worker_bytes(survey(small, small)) == diagnosis.WORKER_BYTES
    assert diagnosis.worker_bytes(survey(small, large)) == (300 << 20) + diagnosis.BATCHES_BYTES
    assert "plan 256m for each Python worker" in render(survey(small, small), [])


def test_the_report_names_what_stands_behind_a_name() -> None:
    named = replace(GOOD, command="python3", executable="/usr/bin/python3")
    lines = render(survey(named, GOOD, ABSENT), []).splitlines()
    assert lines[1].startswith("driver    Python 3.11.2 (/usr/bin/python3), kafkalog 1.0, pyspark 4.3.0,")
    assert lines[2].startswith("executor  host0 (executor 0): Python 3.11.2, kafkalog 1.0,")
    assert lines[3] == "executor  host1 (executor 1): does not run: sh: 1: /env/python: not found"
