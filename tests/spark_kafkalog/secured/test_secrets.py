"""Test that nothing shows the secrets among a query's options: plans, pages, logs, files and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client import Producer
from kafkalog.client.admin import Admin
from peers import require
from peers.brokers.kafka import KAFKA_4
from peers.brokers.secured_kafka import ALICE, SecuredKafka, password_of
from peers.clusters.spark_cluster import StandaloneCluster
from peers.toolchains import java
from tests.spark_kafkalog.class_data import short_lived
from tests.spark_kafkalog.topics import Topics
from tests.support.secured.uses import new_topic
from tests.support.secured.ways import by_password

SECRETS = {
    "kafka.sasl.password": "s3cret-of-sasl",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="s3cret-of-jaas";',
    "kafka.ssl.truststore.password": "s3cret-of-truststore",
    "kafka.ssl.keystore.password": "s3cret-of-keystore",
    "kafka.ssl.key.password": "s3cret-of-key",
    "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\ns3cret-of-pem\n-----END PRIVATE KEY-----",
    "kafka.ssl.certificate.pem": "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\ns3cret-of-certificate",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "s3cret-of-client",
    "kafka.sasl.oauthbearer.token": "s3cret-of-token",
    "kafka.sasl.oauthbearer.config": "scope=s3cret-of-config",
    "kafka.sasl.oauthbearer.assertion.private.key.pem": "s3cret-of-assertion",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase": "s3cret-of-passphrase",
}
MARK = "s3cret-of-"


@pytest.mark.exhaustive
@pytest.mark.usefixtures("processes")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_nothing_shows_secrets(broker_address: str, topics: Topics, tmp_path: Path) -> None:
    require(java.missing())
    topic, other = topics.create("secrets"), topics.create("secrets-other")
    topics.produce(topic, [{"value": b"x"}])
    given = {"bootstrap": broker_address, "topic": topic, "other": other, "settings": {}, "secret": SECRETS}
    given["master"] = "local[2]"
    shown = shown_by(given, tmp_path)
    leaks = {name: text[max(0, text.find(MARK) - 200) :][:260] for name, text in shown.items() if MARK in text}
    assert leaks == {}
    # A stream before the line that hides them was warned of, and none after it.
    assert shown["stderr"].count("explain(True) of this stream shows kafka.ssl.keystore.key, unless ") == 1
    assert shown["stderr"].count("explain(True) of this stream") == 1
    assert "the-private-key" in shown["not hidden"]


@pytest.fixture
def secured(secured_kafkas: Callable[[str], SecuredKafka]) -> SecuredKafka:
    return secured_kafkas(KAFKA_4)


@pytest.fixture
def of_secured(secured: SecuredKafka, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Yield options for `shown_by`: topics of the secured broker, and a cluster whose executors are processes."""
    require(java.missing())
    topics = [new_topic(secured, 1) for _ in range(2)]
    with Producer({"bootstrap.servers": secured.bootstrap}) as producer:
        producer.send(topics[0], b"x").result()
    (tmp_path / "cluster").mkdir()
    with StandaloneCluster(tmp_path / "cluster", [{}], jvm_options=short_lived()) as cluster:
        yield {
            "master": cluster.master,
            "bootstrap": secured.addresses["SASL_SSL"],
            "topic": topics[0],
            "other": topics[1],
            "settings": {
                "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
                "spark.executor.memory": "512m",
            },
        }


@pytest.mark.timeout(600)
def test_nothing_shows_delegation_tokens(secured: SecuredKafka, of_secured: dict[str, Any], tmp_path: Path) -> None:
    trusted = str(secured.certificates.authority)
    login = {
        "auth.bootstrap.servers": secured.addresses["SASL_SSL"],
        "ssl.truststore.location": trusted,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": ALICE,
        "kafka.sasl.password": password_of(ALICE),
    }
    of_secured["settings"] |= {f"spark.kafka.clusters.peers.{name}": text for name, text in login.items()}
    of_secured["secret"] = {"kafka.security.protocol": "SASL_SSL", "kafka.ssl.truststore.location": trusted}
    with Admin(by_password(secured, "SCRAM-SHA-512")) as admin:
        before = {token.token_id for token in admin.delegation_tokens.describe()}
        shown = shown_by(of_secured, tmp_path)
        tokens = [token for token in admin.delegation_tokens.describe() if token.token_id not in before]
    # There is no other login, so that these are what the queries have logged in by.
    assert tokens
    assert_hidden(shown, [secret for token in tokens for secret in (token.password, token.token_id, token.hmac.hex())])


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_shows_a_password(secured: SecuredKafka, of_secured: dict[str, Any], tmp_path: Path) -> None:
    """Executors log in by the password itself."""
    of_secured["secret"] = {
        f"kafka.{name}": text
        for name, text in by_password(secured, "SCRAM-SHA-512").items()
        if name != "bootstrap.servers"
    }
    assert_hidden(shown_by(of_secured, tmp_path), [password_of(ALICE)])


def assert_hidden(shown: dict[str, str], secrets: list[str]) -> None:
    """Assert that nothing shows any of the secrets, and that the logs of executors are among what was searched."""
    assert any(name.startswith("cluster/work0/app-") and name.endswith("/stderr") for name in shown)
    assert [name for name, text in shown.items() if any(secret in text for secret in secrets)] == []


def shown_by(given: dict[str, Any], tmp_path: Path) -> dict[str, str]:
    """Run `secrets_program`; return everything that shows something of its queries, by names."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_kafkalog.secured.secrets_program", str(tmp_path)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    shown: dict[str, str] = json.loads((tmp_path / "shown.json").read_text())
    assert {
        "batch",
        "stream",
        "stream to the sink",
        "registry",
        "wrong broker",
        "load",
        "page SQL/",
        "execution 0",
    } <= set(shown)
    shown |= {"stdout": done.stdout, "stderr": done.stderr}
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "shown.json":
            shown[str(file.relative_to(tmp_path))] = file.read_bytes().decode("utf-8", "replace")
    assert any(name.startswith("events/") and "SparkListenerSQLExecutionStart" in text for name, text in shown.items())
    return shown
