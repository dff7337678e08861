"""Test the probe: the script that describes a Python, and how its output is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from peers.clusters.spark_cluster import clean_environment
from peers.process import free_port
from spark_kafkalog.cluster import probe, survey
from spark_kafkalog.cluster.facts import SEPARATOR, Probe, read_executor, read_probe
from tests.spark_kafkalog.cluster.environments import OTHER_VERSION, make_environment, site_packages, with_kafkalog
from tests.support.kafkalog_broker import KafkalogBroker


def run(python: str | Path, directory: Path, **properties: str) -> Probe:
    """Run the probe as executors do, with the archives of Spark in its path."""
    done = subprocess.run(
        survey._words(str(python)),
        input=json.dumps({key.replace("_", "."): value for key, value in properties.items()}),
        stdout=subprocess.PIPE, text=True, timeout=120, check=True,
        cwd=directory, env=clean_environment() | {survey._PATHS: ""},
    )  # fmt: skip
    return read_executor(str(python), done.stdout.rstrip("\n")).probe


def test_an_environment_with_kafkalog(environments: dict[str, Path], tmp_path: Path) -> None:
    found = run(environments["with"], tmp_path)
    assert found.problem is None
    assert found.minor == ".".join(map(str, sys.version_info[:2]))
    assert found.source == str(site_packages(environments["with"].parents[1]))
    assert found.packages["pyarrow"]
    assert found.packages["pyspark"] == pyspark.__version__
    assert found.failing == {}
    assert found.memory is None or 20 << 20 < found.memory < 2 << 30
    other = run(environments["other"], tmp_path)
    assert (other.version, other.digest != found.digest) == (OTHER_VERSION, True)


def test_an_environment_without_kafkalog(environments: dict[str, Path], tmp_path: Path) -> None:
    found = run(environments["without"], tmp_path)
    assert (found.source, found.version) == (None, None)
    assert found.problem == "No module named 'pyspark_kafkalog'"


def test_an_environment_that_lacks_a_dependency(processes: None, tmp_path: Path) -> None:
    python = with_kafkalog(tmp_path / "environment", without=("pyspark", "py4j", "pyarrow"))
    found = run(python, tmp_path)
    assert found.source is None
    assert found.version is not None
    assert found.problem == "No module named 'pyarrow'"


def test_a_source_that_fails(processes: None, tmp_path: Path) -> None:
    """Spark's look-up imports all modules `pyspark_*`, and ends with the first error."""
    python = make_environment(tmp_path / "environment")
    (site_packages(tmp_path / "environment") / "pyspark_broken.py").write_text("raise SystemExit('not licensed')\n")
    assert run(python, tmp_path).failing == {"pyspark_broken": "SystemExit: not licensed"}


def test_brokers(environments: dict[str, Path], broker_address: str, tmp_path: Path) -> None:
    closed = f"127.0.0.1:{free_port()}"
    found = run(environments["with"], tmp_path, bootstrap_servers=f"{closed},{broker_address}")
    assert [(each.kind, each.address, each.error is None) for each in found.brokers] == [
        ("bootstrap", closed, False),
        ("bootstrap", broker_address, True),
        ("broker", broker_address, True),
    ]
    assert "refused" in str(found.brokers[0].error)
    # Without kafkalog, the bootstrap servers can be tried all the same.
    found = run(environments["without"], tmp_path, bootstrap_servers=broker_address)
    assert [(each.kind, each.error) for each in found.brokers] == [("bootstrap", None)]


def test_a_broker_that_announces_an_address_that_nobody_reaches(
    environments: dict[str, Path], start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    listening, announced = (f"127.0.0.1:{free_port()}" for _ in range(2))
    start_broker({"listeners": f"PLAINTEXT://{listening}", "advertised.listeners": f"PLAINTEXT://{announced}"})
    found = run(environments["with"], tmp_path, bootstrap_servers=listening)
    assert [(each.kind, each.address, each.error is None) for each in found.brokers] == [
        ("bootstrap", listening, True),
        ("broker", announced, False),
    ]


def test_secrets_stay_out_of_what_is_printed(
    environments: dict[str, Path], broker_address: str, tmp_path: Path
) -> None:
    found = run(
        environments["with"], tmp_path, bootstrap_servers=broker_address, sasl_mechanism="PLAIN",
        sasl_username="user", sasl_password="s3cret", security_protocol="SASL_PLAINTEXT",
    )  # fmt: skip
    assert found.brokers[-1].kind == "cluster"
    assert found.brokers[-1].error is not None
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("output", "code", "problem"),
    [
        ("sh: 1: nowhere: not found\n", 127, "sh: 1: nowhere: not found"),
        ("", 137, "it ended with exit code 137 and printed nothing"),
        ("one\n  SyntaxError: no\n\n", 1, "it is older than Python 3.7 (SyntaxError: no)"),
        (f"{probe.MARK}[1, 2]\n", 0, f"{probe.MARK}[1, 2]"),
        (f"{probe.MARK}{{\n", 0, f"{probe.MARK}{{"),
    ],
)
def test_output_that_is_no_description(output: str, code: int, problem: str) -> None:
    found = read_probe("python", output, code)
    assert (found.python, found.problem) == (None, problem)


@pytest.mark.parametrize(
    ("line", "host", "number"),
    [
        ("node\t\t\t127\tno", "node", ""),
        ("pod-1\t7\t\t127\tno", "pod-1", "7"),
        ("node\t\thttp://10.0.0.4:8081/logPage/?appId=app-1&executorId=3&logType=stderr\t1\tno", "10.0.0.4", "3"),
        ("node\t\thttps://[fd00::1]:8081/logPage/?appId=app-1&executorId=3\t1\tno", "[fd00::1]", "3"),
        ("node\t\thttp://rm:8042/node/containerlogs/container_1/user/stderr?start=-4096\t1\tno", "node", ""),
    ],
)
def test_an_executor_s_name(line: str, host: str, number: str) -> None:
    found = read_executor("python", line)
    assert (found.host, found.number, found.probe.problem) == (host, number, "no")


def test_the_lines_of_an_executor_s_output() -> None:
    output = SEPARATOR.join(["a warning", "sh: 1: nowhere: not\tfound"])
    assert read_executor("python", f"node\t\t\t127\t{output}").probe.problem == "sh: 1: nowhere: not\tfound"
