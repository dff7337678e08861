"""Test `kafkalog spark check` as a command: on this machine, before an application goes to a cluster."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from peers.cache import require
from peers.clusters.spark_cluster import clean_environment
from peers.toolchains import java
from spark_kafkalog.cluster import check

pytestmark = pytest.mark.spark


def run(environments: dict[str, Path], directory: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    require(java.missing())
    command = [str(environments["spark"]), "-m", "kafkalog.cli.main", "spark", "check", "--master", "local[1]", *words]
    done = subprocess.run(
        command,
        cwd=directory,
        env=clean_environment(**variables),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.exhaustive
def test_nothing_is_wrong(environments: dict[str, Path], broker_address: str, tmp_path: Path) -> None:
    python = str(environments["with"])
    code, printed, errors = run(
        environments, tmp_path, "--bootstrap-server", broker_address, "--json", PYSPARK_PYTHON=python
    )
    assert code == 0, errors
    told: dict[str, Any] = json.loads(printed)
    assert (told["findings"], told["executors"]) == ([], [])
    assert told["driver"]["command"] == python
    assert [each["error"] for each in told["driver"]["brokers"]] == [None, None]


def test_a_python_that_is_absent(environments: dict[str, Path], tmp_path: Path) -> None:
    code, printed, _ = run(environments, tmp_path, PYSPARK_PYTHON="./environment/bin/python")
    assert code == 1
    lines = printed.splitlines()
    assert lines[0] == (
        "python    ./environment/bin/python (PYSPARK_PYTHON) looks for sources on the driver and runs them on executors"
    )
    assert lines[-3].startswith(
        "problem   Spark looks for sources with ./environment/bin/python (PYSPARK_PYTHON), which"
    )
    assert "ln -s DIRECTORY environment" in lines[-2]
    assert lines[-1] == "problems: 1"


def test_an_application_that_does_not_start(environments: dict[str, Path], tmp_path: Path) -> None:
    code, printed, errors = run(environments, tmp_path, "--master", "nonsense")
    assert (code, printed) == (1, "")
    assert errors.startswith("kafkalog: the application did not start: ")
    assert "Master must either be yarn or start with spark" in errors
    assert len(errors.splitlines()) == 1


def test_wrong_usage(environments: dict[str, Path], tmp_path: Path) -> None:
    code, printed, errors = run(environments, tmp_path, "--consumer-property", "nonsense")
    assert (code, printed) == (2, "")
    assert errors == "kafkalog: --consumer-property: expected KEY=VALUE\n"


def test_a_session_without_a_jvm(capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions of Spark Connect have no SparkContext."""

    class Connected:
        @property
        def sparkContext(self) -> None:  # noqa: N802
            raise NotImplementedError("not in Spark Connect")

    parser = argparse.ArgumentParser()
    check.add_options(parser)
    assert check.run(parser.parse_args([]), lambda master: Connected()) == 1  # type: ignore[arg-type,return-value]
    assert "run the check on the cluster itself, by spark-submit" in capsys.readouterr().err
