"""Test settings from files of MirrorMaker 2 and from options."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.mirror import clients
from kafkalog.mirror.actions.options import add_clusters, settings_of
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.settings import MirrorSettings, aliases_of

FILE = """
# As in Apache Kafka's config/connect-mirror-maker.properties
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
B.security.protocol = SASL_PLAINTEXT
B.sasl.username = me
B.sasl.password = secret
B.producer.linger.ms = 5
A.consumer.fetch.max.bytes = 1000
topics = one
groups = g.*
A->B.enabled = true
A->B.topics = words, clicks
A->B.sync.group.offsets.enabled = true
B->A.enabled = false
B->A.topics = other
replication.factor = 1
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
topics.blacklist = no.*
some.thing = 1
"""


def settings(tmp_path: Path, *words: str, **more: str) -> MirrorSettings:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    parser = argparse.ArgumentParser()
    add_clusters(parser)
    return settings_of(parser.parse_args(["--config", str(file), *words]), {**more})


def test_a_file_of_mirrormaker_says_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = settings(tmp_path)
    assert (found.source, found.target) == ("A", "B")
    assert found.source_client == {"bootstrap.servers": "a:9092", "fetch.max.bytes": "1000"}
    assert found.target_client == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": "me",
        "sasl.password": "secret",
        "linger.ms": "5",
    }
    assert found.topic_filter.allows("clicks")
    assert not found.topic_filter.allows("one")
    assert found.topics_exclude == "no.*"
    assert found.sync_groups
    assert found.replication_factor == 1
    assert found.naming.remote("words") == "words"
    assert capsys.readouterr().err.endswith("mm2.properties: some.thing\n")
    assert "secret" not in repr(found)


def test_security_without_a_cluster_counts_for_both() -> None:
    """As in MirrorMaker 2, where what is said of a cluster goes before it."""
    given = {
        "bootstrap.servers": "both:1",
        "A.bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "all.pem",
        "linger.ms": "7",
        "B.security.protocol": "PLAINTEXT",
        "B.consumer.sasl.mechanism": "SCRAM-SHA-256",
    }
    found, unknown = MirrorSettings.of(given, "A", "B")
    both = {"sasl.mechanism": "PLAIN", "ssl.truststore.location": "all.pem", "security.protocol": "SASL_SSL"}
    assert found.source_client == {**both, "bootstrap.servers": "a:9092"}
    assert found.target_client == {
        **both,
        "bootstrap.servers": "both:1",
        "security.protocol": "PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
    }
    assert unknown == ["linger.ms"]
    own, _ = MirrorSettings.of(given, "A", "B", ({"security.protocol": "SSL"}, {}))
    assert own.source_client["security.protocol"] == "SSL"


def test_options_go_before_the_file(tmp_path: Path) -> None:
    found = settings(tmp_path, "--source", "c:1", "--naming", "default", topics="x")
    assert found.source_client["bootstrap.servers"] == "c:1"
    assert found.topics == "x"
    assert found.naming.remote("x") == "A.x"


def test_without_a_file_the_options_are_enough() -> None:
    parser = argparse.ArgumentParser()
    add_clusters(parser)
    found = settings_of(parser.parse_args(["--source", "a:1", "--target", "b:2"]), {"topics": "words"})
    assert (found.source, found.target) == ("source", "target")
    assert found.group_id == "kafkalog-mirror-source->target"
    assert found.transactional_id(3) == "kafkalog-mirror-source->target-3"
    assert not found.group_filter.allows(found.group_id)


def test_the_other_direction_is_chosen_by_aliases(tmp_path: Path) -> None:
    found = settings(tmp_path, "--source-alias", "B", "--target-alias", "A")
    assert found.topics == "other"
    assert found.source_client["bootstrap.servers"] == "b:9092"


def test_several_flows_need_a_choice() -> None:
    with pytest.raises(ConfigError, match="A->B, B->A"):
        aliases_of({"A->B.enabled": "true", "B->A.enabled": "true"})
    assert aliases_of({"A->B.enabled": "false", "A->B.emit.heartbeats.enabled": "true"}) is None


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("tasks.max", "0", "tasks.max=0"),
        ("topics", "(", "topics="),
        ("auto.offset.reset", "none", "earliest, latest"),
        ("sync.group.offsets.enabled", "yes", "true or false"),
    ],
)
def test_a_value_that_cannot_be_is_named(key: str, text: str, words: str) -> None:
    client = {"bootstrap.servers": "a:1"}
    with pytest.raises(ConfigError, match=words):
        MirrorSettings.of({key: text}, "A", "B", (client, client))


def test_kept_offsets_begin_at_the_beginning() -> None:
    client = {"bootstrap.servers": "a:1"}
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset=latest .* replication\.offsets=keep"):
        MirrorSettings.of({"auto.offset.reset": "latest", "replication.offsets": "keep"}, "A", "B", (client, client))


def with_times(interval: str, **client: str) -> MirrorSettings:
    target = {"bootstrap.servers": "b:1"} | {key.replace("_", "."): text for key, text in client.items()}
    source = {"bootstrap.servers": "a:1"}
    return MirrorSettings.of({"offset.flush.interval.ms": interval}, "A", "B", (source, target))[0]


@pytest.mark.parametrize(
    ("interval", "client", "timeout"),
    [
        ("1000", {}, "121000"),
        ("60000", {}, "180000"),
        ("1000", {"delivery_timeout_ms": "40000"}, "60000"),
        ("850000", {}, "900000"),
        ("60000", {"transaction_timeout_ms": "60001"}, "60001"),
        ("1000000", {"transaction_timeout_ms": "1200000"}, "1200000"),
    ],
)
def test_a_transaction_may_be_open_for_longer_than_the_interval(
    interval: str, client: dict[str, str], timeout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, str]] = []
    monkeypatch.setattr(clients, "producer", made.append)
    MirrorTask(with_times(interval, **client), 0)
    assert [each["transaction.timeout.ms"] for each in made] == [timeout]


@pytest.mark.parametrize(
    ("interval", "client", "words"),
    [
        ("900000", {}, r"offset\.flush\.interval\.ms=900000: .*\(transaction\.max\.timeout\.ms"),
        (
            "5000",
            {"transaction_timeout_ms": "5000"},
            r"transaction\.timeout\.ms=5000 .* offset\.flush\.interval\.ms=5000",
        ),
    ],
)
def test_transactions_that_would_time_out_are_refused(interval: str, client: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_times(interval, **client)


def test_kept_offsets_have_no_transactions_that_time_out() -> None:
    given = {"replication.offsets": "keep", "offset.flush.interval.ms": "3600000"}
    address = {"bootstrap.servers": "a:1"}
    assert MirrorSettings.of(given, "A", "B", (address, address))[0].commit_interval_ms == 3_600_000


def test_an_address_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"--target, or B\.bootstrap\.servers"):
        MirrorSettings.of({"A.bootstrap.servers": "a:1"}, "A", "B")
