"""Test that the login by which the driver gets delegation tokens stays there: executors get the tokens only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, Principal
from spark_kafkalog.delegation import tokens
from spark_kafkalog.delegation.clusters import TokenCluster
from spark_kafkalog.executor.tasks import RangePartition
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.source import KafkalogDataSource

PASSWORD = b"pass-of-the-driver"
SETTINGS = {
    "spark.kafka.clusters.a.auth.bootstrap.servers": "b:9093",
    "spark.kafka.clusters.a.ssl.truststore.password": PASSWORD.decode(),
    "spark.kafka.clusters.a.kafka.sasl.jaas.config": f'PlainLoginModule required password="{PASSWORD.decode()}";',
}
QUERY = {"kafka.bootstrap.servers": "b:9093", "subscribe": "t", "topic": "t"}
VALUE = StructType([StructField("value", BinaryType())])
OWNER = Principal("User", "alice")
TOKEN = DelegationToken("the-id", b"the-hmac", OWNER, OWNER, 0, 1 << 50, 1 << 50)


@pytest.fixture(params=["application", "options"])
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the options of a query, whose settings for tokens are the application's or the query's."""

    def token_for(cluster: TokenCluster) -> DelegationToken:
        assert PASSWORD.decode() in str(cluster.login)
        return TOKEN

    monkeypatch.setattr(tokens, "token_for", token_for)
    if request.param == "options":
        return QUERY | SETTINGS
    for module in ("options.source_options", "sink.sink_options"):
        monkeypatch.setattr(f"spark_kafkalog.{module}.application_settings", lambda options: SETTINGS)
    return QUERY


def test_what_a_query_sends(options: dict[str, str]) -> None:
    made = cloudpickle.dumps(KafkalogDataSource(options))
    assert (PASSWORD in made) == (options != QUERY)  # it goes to the planner, which finds the options in it
    for is_stream in (False, True):
        source = cloudpickle.loads(made)
        reader = source.streamReader(VALUE) if is_stream else source.reader(VALUE)
        sent = cloudpickle.dumps((reader, source))
        assert PASSWORD not in sent
        read, _ = cloudpickle.loads(sent)
        task = RangePartition("t", 0, 0, 1, token=reader._options.token())
        assert read._options.with_token(task.token).client.credentials == ("the-id", TOKEN.password)


def test_references_are_resolved_before_a_query_is_sent(options: dict[str, str], tmp_path: Path) -> None:
    """Executors need not have the file."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("store=pass-of-the-store\nrack=b\n")
    given = options | {
        "kafka.config.providers": "file",
        "kafka.ssl.truststore.location": "trust.jks",
        "kafka.ssl.truststore.password": f"${{file:{secrets}:store}}",
        "kafka.client.rack": f"${{file:{secrets}:rack}}",
    }
    read = cloudpickle.loads(cloudpickle.dumps(SourceOptions.parse(given)))
    secrets.unlink()
    found = read.with_token(TOKEN)
    assert found.client.credentials == ("the-id", TOKEN.password)
    assert found.client.tls.truststore_password == "pass-of-the-store"
    assert found.client_rack == "b"


def test_what_a_writing_query_sends(options: dict[str, str]) -> None:
    source = cloudpickle.loads(cloudpickle.dumps(KafkalogDataSource(options)))
    for writer in (source.writer(VALUE, False), source.streamWriter(VALUE, False)):
        sent = cloudpickle.dumps(writer)
        assert PASSWORD not in sent
        assert cloudpickle.loads(sent)._options.producer.client.credentials == ("the-id", TOKEN.password)


def test_the_options_of_a_load_and_of_commits(options: dict[str, str]) -> None:
    source = cloudpickle.dumps(SourceOptions.parse(options).logged_in())
    assert PASSWORD not in source
    assert cloudpickle.loads(source).client.credentials == ("the-id", TOKEN.password)
    once = options | {"kafka.transactional.id": "id"}
    sink = cloudpickle.loads(cloudpickle.dumps(SinkOptions.parse(once).logged_in())).logged_in()
    assert sink.once.client.credentials == ("the-id", TOKEN.password)
