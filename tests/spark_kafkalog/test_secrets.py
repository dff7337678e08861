"""Test that nothing shows the secrets among a query's options: plans, pages, logs, files and processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers import java, require
from tests.spark_kafkalog.topics import Topics
from tests.support.pages import DOCS

SECRETS = {
    "kafka.sasl.password": "s3cret-of-sasl",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="s3cret-of-jaas";',
    "kafka.ssl.truststore.password": "s3cret-of-truststore",
    "kafka.ssl.keystore.password": "s3cret-of-keystore",
    "kafka.ssl.key.password": "s3cret-of-key",
    "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\ns3cret-of-pem\n-----END PRIVATE KEY-----",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "s3cret-of-client",
}
MARK = "s3cret-of-"


@pytest.mark.usefixtures("processes")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_nothing_shows_secrets(broker_address: str, topics: Topics, tmp_path: Path) -> None:
    require(java.missing())
    topic, other = topics.create("secrets"), topics.create("secrets-other")
    topics.produce(topic, [{"value": b"x"}])
    page = (DOCS / "how-to/secured-clusters.md").read_text()
    redacted = re.search(r"^spark\.sql\.redaction\.options\.regex=(.+)$", page, re.MULTILINE)
    assert redacted is not None
    given = {
        "bootstrap": broker_address,
        "topic": topic,
        "other": other,
        "redacted": redacted[1],
        "secret": SECRETS,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_kafkalog.secrets_program", str(tmp_path)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    shown = json.loads((tmp_path / "shown.json").read_text())
    assert {"batch", "stream", "stream to the sink", "wrong broker", "page SQL/", "execution 0"} <= set(shown)
    shown |= {"stdout": done.stdout, "stderr": done.stderr}
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "shown.json":
            shown[str(file.relative_to(tmp_path))] = file.read_bytes().decode("utf-8", "replace")
    assert any(name.startswith("events/") and "SparkListenerSQLExecutionStart" in text for name, text in shown.items())
    leaks = {name: text[max(0, text.find(MARK) - 200) :][:260] for name, text in shown.items() if MARK in text}
    assert leaks == {}
