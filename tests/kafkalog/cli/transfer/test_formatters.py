"""Test the classes of `--formatter`."""

from __future__ import annotations

import io
import json
import struct
import uuid

import pytest

from broker.coordinator.state_topic import partition_of
from kafkalog.cli.shared.formatter import UnprintableError
from kafkalog.cli.transfer.formatters import FORMATTERS, make_formatter
from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.codec import encode_message
from kafkalog.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkalog.protocol.schema import Message
from tests.support.command import call, run
from tests.support.kafkalog_broker import KafkalogBroker

OFFSETS_TOPIC = "__consumer_offsets"
TOOLS = "org.apache.kafka.tools.consumer."
OFFSETS, GROUPS, TRANSACTIONS = (
    f"{TOOLS}{name}MessageFormatter" for name in ("Offsets", "GroupMetadata", "TransactionLog")
)


def stored(message: Message, version: int) -> bytes:
    return struct.pack(">h", version) + encode_message(message, version)


def record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 7, 0, key, value)


def printed(name: str, *records: ConsumerRecord, skip_errors: bool = False, **properties: str) -> str:
    output = io.BytesIO()
    given = {key.replace("_", "."): value for key, value in properties.items()}
    make_formatter(name, given).write(list(records), output, skip_errors=skip_errors)
    return output.getvalue().decode()


OFFSET_KEY = stored(OffsetCommitKey(group="é", topic="t", partition=3), 1)
OFFSET = OffsetCommitValue(offset=5, leader_epoch=2, metadata='"m"', commit_timestamp=8, expire_timestamp=-1)
GROUP_KEY = stored(GroupMetadataKey(group="g"), 2)
MEMBER = MemberMetadata(
    member_id="m", client_id="c", client_host="/h", rebalance_timeout=1, session_timeout=2, subscription=b"\xff\xfe",
    assignment=b"",
)  # fmt: skip
GROUP = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader="m", members=[MEMBER])


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (0, '"offset":5,"metadata":"\\"m\\"","commitTimestamp":8'),
        (1, '"offset":5,"metadata":"\\"m\\"","commitTimestamp":8,"expireTimestamp":-1'),
        (2, '"offset":5,"metadata":"\\"m\\"","commitTimestamp":8'),
        (3, '"offset":5,"leaderEpoch":2,"metadata":"\\"m\\"","commitTimestamp":8'),
        (4, '"offset":5,"leaderEpoch":2,"metadata":"\\"m\\"","commitTimestamp":8'),
    ],
)
def test_offsets(version: int, fields: str) -> None:
    """As in Kafka's OffsetsMessageFormatterTest, and with the fields of OffsetCommitValue.json in each version."""
    assert printed(OFFSETS, record(OFFSET_KEY, stored(OFFSET, version))) == (
        '{"key":{"version":1,"data":{"group":"é","topic":"t","partition":3}},'
        f'"value":{{"version":{version},"data":{{{fields}}}}}}}\n'
    )


def test_groups() -> None:
    member = (
        '{"memberId":"m","groupInstanceId":null,"clientId":"c","clientHost":"/h","rebalanceTimeout":1,'
        '"sessionTimeout":2,"subscription":"//4=","assignment":""}'
    )
    assert printed(GROUPS, record(GROUP_KEY, stored(GROUP, 3)), record(GROUP_KEY, None)) == (
        '{"key":{"version":2,"data":{"group":"g"}},"value":{"version":3,"data":{"protocolType":"consumer",'
        f'"generation":4,"protocol":null,"leader":"m","currentStateTimestamp":-1,"members":[{member}]}}}}}}\n'
        '{"key":{"version":2,"data":{"group":"g"}},"value":null}\n'
    )
    old = json.loads(printed(GROUPS, record(GROUP_KEY, stored(GROUP, 0))))["value"]["data"]
    assert old.keys() == {"protocolType", "generation", "protocol", "leader", "members"}
    assert "rebalanceTimeout" not in old["members"][0]


def test_transactions() -> None:
    value = TransactionLogValue(
        producer_id=100, producer_epoch=50, transaction_timeout_ms=500, transaction_status=4,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=1000, transaction_start_timestamp_ms=750,
    )  # fmt: skip
    data = (
        '"producerId":100,"producerEpoch":50,"transactionTimeoutMs":500,"transactionStatus":4,'
        '"transactionPartitions":[{"topic":"t","partitionIds":[0,1]}],'
        '"transactionLastUpdateTimestampMs":1000,"transactionStartTimestampMs":750'
    )
    key = stored(TransactionLogKey(transactional_id="id"), 0)
    for version in (0, 1):
        assert printed(TRANSACTIONS, record(key, stored(value, version))) == (
            '{"key":{"version":0,"data":{"transactionalId":"id"}},'
            f'"value":{{"version":{version},"data":{{{data}}}}}}}\n'
        )


def test_records_of_the_other_kind_are_left_out() -> None:
    offset, group = record(OFFSET_KEY, stored(OFFSET, 3)), record(GROUP_KEY, stored(GROUP, 3))
    assert printed(OFFSETS, group, offset) == printed(OFFSETS, offset)
    assert printed(GROUPS, group, offset) == printed(GROUPS, group)


def test_what_is_unknown_is_told() -> None:
    assert printed(OFFSETS, record(b"\0\x05x", b"\0\0")) == (
        '{"key":{"version":5,"data":"unknown"},"value":{"version":0,"data":"unknown"}}\n'
    )
    assert printed(OFFSETS, record(OFFSET_KEY, b"\x7f\xff")).endswith('"value":{"version":32767,"data":"unknown"}}\n')
    assert printed(TRANSACTIONS, record(None, None)) == '{"key":null,"value":null}\n'


@pytest.mark.parametrize("damaged", [record(b"", b""), record(OFFSET_KEY[:-1], None), record(OFFSET_KEY, b"\0\x03x")])
def test_damaged_records(damaged: ConsumerRecord, capsys: pytest.CaptureFixture[str]) -> None:
    sound = record(OFFSET_KEY, None)
    with pytest.raises(UnprintableError, match="t-0 offset 0") as raised:
        printed(OFFSETS, sound, damaged, sound)
    assert raised.value.done == 1
    assert printed(OFFSETS, sound, damaged, sound, skip_errors=True) == printed(OFFSETS, sound, sound)
    assert "t-0 offset 0" in capsys.readouterr().err


def test_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(f"{TOOLS}NoOpMessageFormatter", record(b"k", b"v"), print_key="true") == ""
    assert "have no effect with NoOpMessageFormatter" in capsys.readouterr().err


def test_records_are_logged_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{TOOLS}LoggingMessageFormatter"
    assert printed(name, record(b"k", b"v"), record(None, None), print_key="true") == "k\tv\nnull\tnull\n"
    assert capsys.readouterr().err.splitlines() == [
        "kafkalog: CreateTime:7, key:k, value:v",
        "kafkalog: CreateTime:7, key:null value:null",
    ]
    long = "org.apache.kafka.common.serialization.LongDeserializer"
    with pytest.raises(UnprintableError):
        printed(name, record(None, b"8 bytes."), record(None, b"7 bytes"), value_deserializer=long)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_every_name() -> None:
    assert len(FORMATTERS) == 12
    for name in FORMATTERS:
        make_formatter(name, {})


def test_the_offsets_of_a_group(broker: KafkalogBroker) -> None:
    where = ("--bootstrap-server", broker.address)
    topic = group = f"words-{uuid.uuid4().hex[:8]}"
    call("topics", "create", *where, "--topic", topic, "--partitions", "1")
    call("groups", "reset-offsets", *where, "--group", group, "--topic", topic, "--to-offset", "0", "--execute")
    with Admin({"bootstrap.servers": broker.address}) as admin:
        partitions = len(admin.describe_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].partitions)
        of_group = TopicPartition(OFFSETS_TOPIC, partition_of(group, partitions))
        # Other tests commit offsets to this broker, too.
        end = admin.list_offsets({of_group: LATEST})[of_group].offset
    done = run(
        *("consume", *where, "--topic", OFFSETS_TOPIC, "--partition", str(of_group.partition)),
        *("--offset", str(end - 1), "--max-messages", "1", "--formatter", OFFSETS),
    )
    row = json.loads(done.stdout)
    assert row["key"] == {"version": 1, "data": {"group": group, "topic": topic, "partition": 0}}
    assert row["value"]["data"].items() >= {"offset": 0, "metadata": ""}.items()
