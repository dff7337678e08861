"""Tests of finding an application's settings on the command line of its driver."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkalog.delegation import application
from spark_kafkalog.delegation.application import application_settings, joined, parse_command_line
from spark_kafkalog.delegation.clusters import PREFIX, cluster_for

SUBMIT = "org.apache.spark.deploy.SparkSubmit"
SETTING = "spark.kafka.clusters.a.auth.bootstrap.servers"


def test_settings_stand_before_the_applications_file() -> None:
    words = ["java", "-cp", "x", SUBMIT, "--master", "yarn", "--conf", "spark.a=b=c", "-c", "spark.d=e", "--verbose"]
    words += ["--keytab", "k", "--principal=p", "--properties-file", "f", "job.py", "--conf", "spark.a=of the job"]
    settings, file, with_defaults = parse_command_line(words)
    assert settings == {
        "spark.a": "b=c",
        "spark.d": "e",
        "spark.kerberos.keytab": "k",
        "spark.kerberos.principal": "p",
    }
    assert (file, with_defaults) == ("f", False)


def test_options_of_a_query_belong_to_an_alias_of_any_case() -> None:
    """Spark hands them over with names in lower case."""
    servers, mechanism = "auth.bootstrap.servers", "sasl.token.mechanism"
    settings = {f"{PREFIX}MyCluster.{servers}": "b:9093", f"{PREFIX}MyCluster.{mechanism}": "SCRAM-SHA-512"}
    found = joined(settings, {f"{PREFIX}mycluster.{mechanism}": "SCRAM-SHA-256"})
    assert found == settings | {f"{PREFIX}MyCluster.{mechanism}": "SCRAM-SHA-256"}
    cluster = cluster_for({"bootstrap.servers": "b:9093"}, found)
    assert cluster is not None
    assert (cluster.alias, cluster.token_mechanism) == ("MyCluster", "SCRAM-SHA-256")
    assert joined(settings, {f"{PREFIX}new.{servers}": "c:9093"}) == settings | {f"{PREFIX}new.{servers}": "c:9093"}


def test_aliases_that_differ_in_case_only() -> None:
    settings = {f"{PREFIX}A.x": "1", f"{PREFIX}a.x": "2"}
    assert joined(settings, {f"{PREFIX}a.x": "3"}) == settings | {f"{PREFIX}a.x": "3"}
    settings = {f"{PREFIX}Ab.x": "1", f"{PREFIX}aB.x": "2"}
    assert joined(settings, {f"{PREFIX}ab.x": "3"}) == dict.fromkeys(settings, "3")


@pytest.mark.parametrize("words", [[], ["java"], ["java", SUBMIT], ["java", SUBMIT, "--conf"], [SUBMIT, "-"]])
def test_command_lines_without_settings(words: list[str]) -> None:
    assert parse_command_line(words)[1] is None


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a /proc where this process has a daemon and a driver above it, without a command line."""
    monkeypatch.setattr(application, "PROC", tmp_path)
    # Another test of this process may have left a session.
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)
    monkeypatch.setattr("os.getpid", lambda: 30)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for process, parent in ((30, 20), (20, 10), (10, 1)):
        (tmp_path / f"{process}").mkdir()
        (tmp_path / f"{process}/stat").write_text(f"{process} (a (b) c) S {parent} 1 1 0")
        (tmp_path / f"{process}/cmdline").write_bytes(b"python\0-m\0pyspark.daemon\0")
    (tmp_path / "10/cwd").mkdir()
    return tmp_path


def command_line(proc: Path, *words: str) -> None:
    (proc / "10/cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in ("java", "-Dspark.x=y", *words)))


def test_the_driver_is_found_among_the_ancestors(proc: Path) -> None:
    assert application_settings({}) == {}
    command_line(proc, SUBMIT, "--conf", f"{SETTING}=one", "--conf", "spark.other=x", "pyspark-shell")
    assert application_settings({}) == {SETTING: "one"}
    assert application_settings({SETTING: "of the query"}) == {SETTING: "of the query"}


@pytest.mark.spark
def test_a_thread_that_has_not_made_the_session(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(SparkSession.getActiveSession).result() is None
        settings = threads.submit(application._of_session).result()
    assert settings is not None
    assert settings["spark.app.id"] == spark.sparkContext.applicationId


@pytest.mark.spark
def test_a_forked_process_leaves_the_connection_of_its_parent_alone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr("py4j.clientserver.JavaClient.send_command", lambda *_, **__: os._exit(1))
        os._exit(0 if application_settings({}) == {} else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (application._of_session() or {})["spark.app.id"] == spark.sparkContext.applicationId


def test_the_driver_of_a_process_that_was_forked_ahead(proc: Path) -> None:
    """The fork server has another parent when the launcher that has started it has ended."""
    command_line(proc, SUBMIT, "--conf", f"{SETTING}=one", "pyspark-shell")
    (proc / "20/stat").write_text("20 (python) S 1 1 1 0")
    assert application_settings({}) == {}
    (proc / "20/cmdline").write_bytes(b"python\0-m\0spark_kafkalog.starting.fork_server\x0010\x003\0")
    assert application_settings({}) == {SETTING: "one"}
    (proc / "30/cmdline").write_bytes(b"python\0-m\0spark_kafkalog.starting.fork_server\0")
    assert application_settings({}) == {}


def test_settings_of_files(proc: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (proc / "10/cwd/some.conf").write_text(f"{SETTING} of-the-file\nspark.kerberos.keytab  alice.keytab\n")
    (tmp_path / "spark-defaults.conf").write_text(f"{SETTING} of-the-defaults\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    command_line(proc, SUBMIT, "job.py")
    assert application_settings({}) == {SETTING: "of-the-defaults"}
    command_line(proc, SUBMIT, "--properties-file", "some.conf", "job.py")
    assert application_settings({}) == {SETTING: "of-the-file", "spark.kerberos.keytab": "alice.keytab"}
    command_line(proc, SUBMIT, "--properties-file", "some.conf", "--conf", f"{SETTING}=one", "job.py")
    assert application_settings({})[SETTING] == "one"


def test_a_file_that_cannot_be_read_is_named(proc: Path, caplog: pytest.LogCaptureFixture) -> None:
    command_line(proc, SUBMIT, "--properties-file", "missing.conf", "job.py")
    assert application_settings({}) == {}
    assert "missing.conf" in caplog.text


def test_cluster_mode_of_yarn(proc: Path) -> None:
    (proc / "10/cwd/p.properties").write_text(f"{SETTING}=of-yarn\n")
    master = "org.apache.spark.deploy.yarn.ApplicationMaster"
    command_line(proc, master, "--class", "PythonRunner", "--arg", "--conf", "--properties-file", "p.properties")
    assert application_settings({}) == {SETTING: "of-yarn"}
