"""Tests of foreign admin clients: topics, configs, offsets by time, deleting records, and errors."""

from __future__ import annotations

import pytest

from peers.clients.base import ClientError, ForeignClient, Record
from tests.foreign.conftest import client_params
from tests.foreign.records import BASE_TIME, KEEP

INVALID_TOPIC_EXCEPTION = 17
MESSAGE_TOO_LARGE = 10
OFFSET_OUT_OF_RANGE = 1
TOPIC_ALREADY_EXISTS = 36
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_CONFIG = 40
INVALID_PARTITIONS = 37

ADMINS = pytest.mark.parametrize("client", client_params("admin"), indirect=True)


def hundred(referee: ForeignClient, topic: str) -> None:
    """Offsets 0..99 at BASE_TIME, +10, +20, ... in four batches."""
    referee.create_topic(topic, config=KEEP)
    for first in range(0, 100, 25):
        records = [Record(None, b"%d" % i, (), BASE_TIME + 10 * i) for i in range(first, first + 25)]
        referee.produce(topic, 0, records, codec="lz4" if first % 50 else "none")


@ADMINS
def test_create_produce_delete(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    assert client.produce(topic, 1, [Record(None, b"x", (), BASE_TIME)]) == [0]
    client.delete_topic(topic)
    with pytest.raises(ClientError) as refused:
        referee.delete_topic(topic)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


@ADMINS
def test_create_twice_is_refused(client: ForeignClient, topic: str) -> None:
    client.create_topic(topic)
    with pytest.raises(ClientError) as refused:
        client.create_topic(topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


@ADMINS
@pytest.mark.parametrize("name", ["with space", "a" * 250, "..", "slash/inside"])
def test_bad_names_are_refused(client: ForeignClient, name: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(name)
    assert refused.value.code == INVALID_TOPIC_EXCEPTION


@ADMINS
def test_bad_config_is_refused(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(topic, config={"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG
    referee.create_topic(topic)  # nothing of it was left behind


@pytest.mark.parametrize("client", client_params("admin", skip=("librdkafka",)), indirect=True)
def test_zero_partitions_are_refused(client: ForeignClient, topic: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_topic(topic, partitions=0)
    assert refused.value.code in (INVALID_PARTITIONS, -1)


@pytest.mark.parametrize("client", client_params("describe_config"), indirect=True)
def test_describe_config(client: ForeignClient, topic: str) -> None:
    client.create_topic(topic, config={"retention.ms": "123456", "cleanup.policy": "compact"})
    config = client.describe_config(topic)
    assert config["retention.ms"] == "123456"
    assert config["cleanup.policy"] == "compact"
    assert config["segment.bytes"] == str(1 << 30)
    assert config["message.timestamp.type"] == "CreateTime"
    assert config["compression.type"] == "producer"
    assert config["min.insync.replicas"] == "1"


@ADMINS
def test_alter_config(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    client.create_topic(topic, config={"retention.ms": "123456"})
    client.alter_config(topic, {"retention.ms": "654321"})
    assert referee.describe_config(topic)["retention.ms"] == "654321"
    with pytest.raises(ClientError) as refused:
        client.alter_config(topic, {"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG
    assert referee.describe_config(topic)["retention.ms"] == "654321"


@ADMINS
def test_create_partitions(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    assert client.partition_count(topic) == 2
    client.create_partitions(topic, 5)
    assert client.partition_count(topic) == referee.partition_count(topic) == 5
    with pytest.raises(ClientError) as refused:
        client.create_partitions(topic, 4)
    assert refused.value.code == INVALID_PARTITIONS
    assert client.produce(topic, 4, [Record(None, b"x", (), BASE_TIME)]) == [0]


@pytest.mark.parametrize("client", client_params("list_offset"), indirect=True)
def test_offsets_by_time(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    hundred(referee, topic)
    asked = {
        "earliest": 0,
        "latest": 100,
        str(BASE_TIME - 1): 0,
        str(BASE_TIME): 0,
        str(BASE_TIME + 1): 1,
        str(BASE_TIME + 240): 24,
        str(BASE_TIME + 241): 25,
        str(BASE_TIME + 255): 26,
        str(BASE_TIME + 990): 99,
    }
    assert {at: client.list_offset(topic, 0, at)[0] for at in asked} == asked
    # After the last record: none, or as some clients put it, the end
    assert client.list_offset(topic, 0, str(BASE_TIME + 991))[0] in (-1, 100)


@pytest.mark.parametrize("client", client_params("max_timestamp"), indirect=True)
def test_offset_of_the_greatest_time(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, config=KEEP)
    times = [5, 9, 3, 9, 1]
    referee.produce(topic, 0, [Record(None, b"", (), BASE_TIME + t) for t in times])
    assert client.list_offset(topic, 0, "max_timestamp") == (1, BASE_TIME + 9)


@pytest.mark.parametrize("client", client_params("delete_records"), indirect=True)
def test_delete_records(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    hundred(referee, topic)
    assert client.delete_records(topic, 0, 30) == 30
    assert client.list_offset(topic, 0, "earliest")[0] == 30
    assert [r.value for r in client.consume(topic, 0, 30, 100)] == [b"%d" % i for i in range(30, 100)]
    with pytest.raises(ClientError) as refused:
        referee.consume(topic, 0, 29, 100)
    assert refused.value.code in (OFFSET_OUT_OF_RANGE, -1)
    assert client.delete_records(topic, 0, 100) == 100
    assert referee.list_offset(topic, 0, "earliest")[0] == 100


@ADMINS
def test_delete_records_beyond_the_end_is_refused(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    hundred(referee, topic)
    with pytest.raises(ClientError) as refused:
        client.delete_records(topic, 0, 101)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("client", client_params("timestamps"), indirect=True)
def test_too_large_a_message_is_refused(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    """The broker's limit, not the client's: the client is told to send up to 8 MiB."""
    referee.create_topic(topic, config={"max.message.bytes": "100000", **KEEP})
    client.produce(topic, 0, [Record(None, b"fits", (), BASE_TIME)])
    with pytest.raises(ClientError) as refused:
        client.produce(topic, 0, [Record(None, bytes(200_000), (), BASE_TIME)], max_request=8 << 20)
    assert refused.value.code == MESSAGE_TOO_LARGE
    client.produce(topic, 0, [Record(None, b"fits again", (), BASE_TIME)])
    assert [r.value for r in referee.consume(topic, 0, 0, 2)] == [b"fits", b"fits again"]
