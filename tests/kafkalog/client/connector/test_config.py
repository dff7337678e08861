"""The properties of the connector: names and defaults of Kafka 0.8.2, names of Kafka 0.7."""

from __future__ import annotations

import pytest

from kafkalog.client.connector.config import ConnectorConfig
from kafkalog.client.connector.fetchers import fetcher_of
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import TopicPartition

LEAST = {"zookeeper.connect": "localhost:2181", "group.id": "g"}


def test_defaults_are_those_of_kafka_0_8_2() -> None:
    config = ConnectorConfig.from_dict(LEAST)
    assert (config.session_timeout, config.connect_patience, config.backoff) == (6.0, 6.0, 2.0)
    assert (config.auto_commit_enable, config.auto_commit_interval) == (True, 60.0)
    assert (config.auto_offset_reset, config.consumer_timeout) == ("largest", None)
    assert (config.offsets_storage, config.is_dual, config.rebalance_max_retries) == ("zookeeper", False, 4)
    client = config.client("h:1")
    assert (client.max_partition_fetch_bytes, client.fetch_max_wait, client.request_timeout) == (1 << 20, 0.1, 30.0)
    assert (client.client_id, client.auto_offset_reset) == ("g", "latest")


def test_names_of_kafka_0_7() -> None:
    config = ConnectorConfig.from_dict(
        {
            "zk.connect": "localhost:2181",
            "groupid": "g",
            "autooffset.reset": "smallest",
            "autocommit.interval.ms": "1000",
            "fetch.size": "4096",
            "zk.synctime.ms": "500",
        }
    )
    assert (config.group_id, config.auto_offset_reset, config.auto_commit_interval) == ("g", "smallest", 1.0)
    assert config.client("h:1").max_partition_fetch_bytes == 4096
    assert config.backoff == 0.5


def test_dual_commits_are_on_where_offsets_are_in_kafka() -> None:
    kafka = {**LEAST, "offsets.storage": "Kafka"}
    assert ConnectorConfig.from_dict(kafka).is_dual
    assert not ConnectorConfig.from_dict({**kafka, "dual.commit.enabled": "false"}).is_dual
    assert not ConnectorConfig.from_dict({**LEAST, "dual.commit.enabled": "true"}).is_dual


def test_properties_of_the_client_are_passed_on() -> None:
    security = {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "secret"}
    config = ConnectorConfig.from_dict({**LEAST, **security, "isolation.level": "read_committed"})
    assert config.security_protocol == "SASL_SSL"
    assert config.client("h:1").isolation_level == 1
    assert "secret" not in repr(config)


def test_references_are_resolved_in_all_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_TEST_GROUP", "resolved")
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", "of-the-store")
    config = ConnectorConfig.from_dict(
        {
            **LEAST,
            "config.providers": "env",
            "group.id": "${env:KAFKALOG_TEST_GROUP}",
            "zookeeper.ssl.truststore.password": "${env:KAFKALOG_TEST_SECRET}",
            "ssl.truststore.location": "/trust",
            "ssl.truststore.password": "${env:KAFKALOG_TEST_SECRET}",
        }
    )
    assert config.group_id == "resolved"
    assert config.zookeeper_security.truststore_password == "of-the-store"
    assert config.client("h:1").tls.truststore_password == "of-the-store"
    assert not config.unknown


def test_unknown_properties_are_known_as_such() -> None:
    assert set(ConnectorConfig.from_dict({**LEAST, "auto.comit.enable": "true"}).unknown) == {"auto.comit.enable"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"group.id": "g"}, "zookeeper.connect is missing"),
        ({"zookeeper.connect": "h:1"}, "group.id is missing"),
        ({**LEAST, "group.id": "a/b"}, "group.id=a/b"),
        ({**LEAST, "auto.offset.reset": "earliest"}, "auto.offset.reset=earliest: expected one of smallest, largest"),
        ({**LEAST, "offsets.storage": "disk"}, "offsets.storage=disk"),
        ({**LEAST, "partition.assignment.strategy": "sticky"}, "partition.assignment.strategy=sticky"),
        ({**LEAST, "fetch.wait.max.ms": "40000"}, "socket.timeout.ms should"),
    ],
)
def test_wrong_values_are_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConnectorConfig.from_dict(properties)


def test_partitions_have_the_fetchers_of_kafka() -> None:
    # (31 * "words".hashCode() + partition) modulo the fetchers; "words".hashCode() is 113318569.
    assert [fetcher_of(TopicPartition("words", each), 4) for each in range(4)] == [
        abs(((31 * 113318569 + each + 2**31) % 2**32) - 2**31) % 4 for each in range(4)
    ]
