"""Tests of the options that count as secrets, and of the warning about those that Spark shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafkalog.client.config import ClientConfig
from kafkalog.client.properties.options import declared
from kafkalog.client.security.kerberos.options import KerberosOptions
from kafkalog.client.security.oauth.options import OAuthOptions
from kafkalog.client.security.tls_options import TlsOptions
from spark_kafkalog import redaction
from spark_kafkalog.cli.quiet_spark import quiet_session
from spark_kafkalog.jobs import application, load
from spark_kafkalog.options.java_patterns import compile_java
from tests.support.sources.pages import DOCS

PUBLIC = {
    *("ssl.truststore.certificates", "ssl.ca.pem", "ssl.keystore.certificate.chain", "ssl.certificate.pem"),
}
"""Certificates: too long for messages, but no secrets. A private key among them is found by its text."""
JAAS = {"kafka.sasl.jaas.config": 'org.example.LoginModule required username="u";'}
LINE = "from spark_kafkalog import redaction; redaction.hide_secrets(spark)"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of files of an application without settings."""
    monkeypatch.setattr(redaction, "directory", lambda: tmp_path)
    monkeypatch.setattr(redaction, "setting", lambda name: None)
    return tmp_path


def test_options_are_secret_where_the_client_keeps_them_secret() -> None:
    options = {
        name: field.metadata["is_secret"]
        for group in (ClientConfig, TlsOptions, OAuthOptions, KerberosOptions)
        for name, field in declared(group).items()
        if not field.metadata["is_object"]
    }
    found = {name for name in options if redaction.is_secret(f"kafka.{name}", "x")}
    assert found == {name for name, secret in options.items() if secret} - PUBLIC
    assert redaction.is_secret("schemaRegistry.basic.auth.user.info", "x")


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("http://alice:s3cret@registry", True),
        *((f"http://alice:s3{each}cret@registry", True) for each in "/?#@:,"),
        ("http://one:8081,http://two:8081/a@b", False),
        ("-----BEGIN CERTIFICATE-----\nx\n-----BEGIN EC PRIVATE KEY-----\ny", True),
        ("http://registry:8081/a@b", False),
        ("-----BEGIN CERTIFICATE-----\nx", False),
        ("a.b:9092,c:9092", False),
    ],
)
def test_values_with_secrets(value: str, secret: bool) -> None:
    assert redaction.is_secret("kafka.x", value) is secret


def test_java_and_the_page_have_the_same_pattern() -> None:
    matches = compile_java(redaction.SETTING)
    assert matches("kafka.ssl.key.password")
    assert matches("kafka.SASL.jaas.config")
    assert not matches("kafka.client.id")
    page = (DOCS / "how-to/secured-clusters.md").read_text()
    assert re.findall(rf"^{re.escape(redaction.KEY)}=(.+)$", page, re.MULTILINE) == [redaction.SETTING]
    assert LINE.replace("; ", "\n\n") in page


def test_one_warning_names_options_and_the_line(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\ns3cret"
    options = {**JAAS, "kafka.ssl.keystore.key": pem, "kafka.sasl.password": "s3cret", "subscribe": "t"}
    for _ in range(2):
        redaction.warn_about(options)
    assert [record.message for record in caplog.records] == [
        "explain(True) of this stream shows kafka.sasl.jaas.config, kafka.ssl.keystore.key, unless its session hides "
        "it; to hide it, add: " + LINE
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "t", "kafka.client.id": "a"},
        {"kafka.sasl.password": "s3cret"},
        {"kafka.sasl.jaas.config": 'org.example.LoginModule required password="s3cret";'},
        {"kafka.sasl.jaas.config": "${file:/etc/kafkalog/secrets.properties:jaas}"},
    ],
)
def test_nothing_is_said_of_what_spark_hides(files: Path, options: dict[str, str]) -> None:
    assert redaction.shown(options) == []


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (redaction.SETTING, []),
        ("(?i)url|jaas", []),
        ("(?i)url", list(JAAS)),
        ("(", list(JAAS)),
    ],
)
def test_the_applications_setting_counts(
    files: Path, pattern: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "setting", {redaction.KEY: pattern}.get)
    assert redaction.shown(JAAS) == shown


@pytest.mark.parametrize("own", [".", "of-a-session"])
def test_a_session_that_hides_them_is_known_by_a_file(files: Path, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(dict[str, str]):
        def set(self, name: str, text: str) -> None:
            self[name] = text

    class Session:
        conf = Settings({redaction.KEY: "(?i)url|my.own"})

    assert redaction.shown(JAAS) == list(JAAS)
    for _ in range(2):
        redaction.hide_secrets(Session)
        assert Session.conf[redaction.KEY] == f"(?:(?i)url|my.own)|{redaction.SETTING}"
    monkeypatch.setattr(redaction, "directory", lambda: files / own)
    assert redaction.shown(JAAS) == []


CHANGED = (redaction.KEY, "spark.sql.shuffle.partitions", "spark.sql.streaming.numRecentProgressUpdates")
"""Settings that the sessions of our commands and jobs change."""


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session of the tests, whose settings are put back afterwards."""
    before = {name: spark.conf.get(name) for name in CHANGED}
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


@pytest.mark.spark
@pytest.mark.parametrize(
    "make",
    [
        lambda directory: application.session("test", None),
        lambda directory: load.context(None),
        lambda directory: quiet_session("test", directory, "local[2]", own_python=False),
    ],
    ids=["job", "load", "command"],
)
def test_sessions_of_jobs_loads_and_commands_hide_secrets(
    session: SparkSession, tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    make(tmp_path)
    assert str(session.conf.get(redaction.KEY)).endswith(f"|{redaction.SETTING}")


@pytest.mark.spark
def test_a_plan_without_secrets(session: SparkSession, broker_address: str, capsys: pytest.CaptureFixture[str]) -> None:
    # A job that another test has run in this session may hide secrets already.
    session.conf.unset(redaction.KEY)
    options = {"kafka.bootstrap.servers": broker_address, "subscribe": "any", "kafka.ssl.keystore.key": "s3cret"}
    stream = session.readStream.format("kafkalog").options(**options).load()
    stream.explain(True)
    assert "kafka.ssl.keystore.key=s3cret" in capsys.readouterr().out
    redaction.hide_secrets(session)
    stream.explain(True)
    plan = capsys.readouterr().out
    assert "s3cret" not in plan
    assert "subscribe=any" in plan
