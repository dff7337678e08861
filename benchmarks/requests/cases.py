"""The requests of `benchmarks.stalls` about topics, records, configurations and transactions."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.create_acls import CreateAclsRequest
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkalog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalog.protocol.messages.describe_topic_partitions import (
    TopicRequest as DescribedTopic,
)
from kafkalog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkalog.protocol.primitives import uvarint
from kafkalog.records.compression import Codec
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.admin_messages import acl, marker, quota
from tests.support.wire import batch, receive_frame

CLIENT = "stalls"
TOPIC = "t"
"""A topic that there is, with `PARTITIONS` partitions."""
PARTITIONS = 100
LIMIT_S = 240.0
"""A request that has not been answered by then is given up."""


@dataclass(frozen=True)
class Case:
    """One request; `connections` send it at once. Before that, `prepare` makes what it is about."""

    name: str
    make: Callable[[float], bytes]
    connections: int = 1
    prepare: Callable[[KafkalogBroker, float], None] = lambda broker, scale: None


def frame(key: ApiKey, version: int, body: bytes, *, tags: bytes = b"\0") -> bytes:
    """Encode a request with a flexible header."""
    head = struct.pack(">hhih", key, version, 1, len(CLIENT)) + CLIENT.encode() + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def whole(message: Any, version: int) -> bytes:
    return encode_request(message, version, 1, CLIENT)


def sent(broker: KafkalogBroker, data: bytes) -> None:
    """Send a request, and wait for its answer."""
    with broker.connect() as sock:
        sock.settimeout(LIMIT_S)
        sock.sendall(data)
        if not receive_frame(sock):
            raise ConnectionError("the broker closed the connection instead of preparing")


def metadata_frame(tags: bytes) -> bytes:
    return frame(ApiKey.METADATA, 12, b"\x01\x00\x00\x00", tags=tags)


def many_tags(count: int) -> bytes:
    return uvarint(count) + b"\x63\x00" * count


def bomb(count: int) -> bytes:
    records = batch([b"\0" * 120_000_000], codec=Codec.ZSTD)
    data = [PartitionProduceData(index=index, records=records) for index in range(count)]
    return whole(
        ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]), 9
    )


def produce_v9(topics: bytes) -> bytes:
    return frame(ApiKey.PRODUCE, 9, b"\x00" + struct.pack(">hi", 1, 1000) + topics + b"\0")


def empty_partitions(scale: float) -> bytes:
    count = int(2_000_000 * scale)
    return produce_v9(b"\x02\x02t" + uvarint(count + 1) + b"\0\0\0\0\0\0" * count + b"\0")


def empty_topics(scale: float) -> bytes:
    count = int(2_000_000 * scale)
    return produce_v9(uvarint(count + 1) + b"\x01\x01\0" * count)


def unknown_partitions(scale: float) -> bytes:
    count = int(1_000_000 * scale)
    body = struct.pack(">hhiihsi", -1, 1, 1000, 1, 1, b"t", count) + struct.pack(">ii", 5000, 0) * count
    head = struct.pack(">hhih", ApiKey.PRODUCE, 3, 1, len(CLIENT)) + CLIENT.encode()
    return struct.pack(">i", len(head) + len(body)) + head + body


def describe_configs(kind: int, name: str, count: int) -> bytes:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return whole(DescribeConfigsRequest(resources=[resource] * count, include_synonyms=True), 4)


def alter_configs(names: Sequence[str], kind: int, key: str, value: str) -> bytes:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resources = [AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config]) for name in names]
    return whole(IncrementalAlterConfigsRequest(resources=resources), 1)


def fetch(scale: float) -> bytes:
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(int(500_000 * scale))
    ]
    topics = [FetchTopic(topic=TOPIC, partitions=wanted)]
    request = FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=0, topics=topics
    )
    return whole(request, 12)


def delete_topics(scale: float) -> bytes:
    return whole(DeleteTopicsRequest(topic_names=[f"x{n}" for n in range(int(1_000_000 * scale))]), 5)


def quotas(scale: float) -> bytes:
    entries = [quota(f"c{n}") for n in range(int(300_000 * scale))]
    return whole(AlterClientQuotasRequest(entries=entries, validate_only=True), 1)


def indexes(scale: float, most: int = 20_000_000) -> list[int]:
    return list(range(int(most * scale)))


def markers(scale: float) -> bytes:
    topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=indexes(scale, 1_000_000))
    return whole(WriteTxnMarkersRequest(markers=[marker(topic)]), 1)


def add_partitions(scale: float) -> bytes:
    topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=indexes(scale, 1_000_000))
    return whole(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[topic],
        ),
        3,
    )


def create_topics(scale: float) -> bytes:
    topics = [
        CreatableTopic(name=f"n{n}", num_partitions=-7, replication_factor=1) for n in range(int(500_000 * scale))
    ]
    return whole(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)


def good_topics(scale: float) -> list[str]:
    return [f"n{n}" for n in range(int(10_000 * scale))]


def create_good_topics(scale: float) -> bytes:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in good_topics(scale)]
    return whole(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)


def delete_records(scale: float) -> bytes:
    rows = [DeleteRecordsPartition(partition_index=n, offset=0) for n in range(int(1_000_000 * scale))]
    return whole(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=rows)], timeout_ms=1000), 2)


def list_offsets(timestamp: int) -> Callable[[float], bytes]:
    def make(scale: float) -> bytes:
        rows = [
            ListOffsetsPartition(partition_index=n, timestamp=timestamp, current_leader_epoch=-1)
            for n in range(int(1_000_000 * scale))
        ]
        return whole(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=rows)]), 7)

    return make


def leader_epochs(scale: float) -> bytes:
    rows = [
        OffsetForLeaderPartition(partition=n, current_leader_epoch=-1, leader_epoch=0)
        for n in range(int(1_000_000 * scale))
    ]
    return whole(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=rows)]), 4
    )


def reassign(scale: float) -> bytes:
    rows = [ReassignablePartition(partition_index=n, replicas=[0]) for n in range(int(1_000_000 * scale))]
    topics = [ReassignableTopic(name=TOPIC, partitions=rows)]
    return whole(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=1000), 0)


def move(scale: float) -> bytes:
    topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=indexes(scale, 300_000))
    return whole(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/tmp", topics=[topic])]), 2)


def grow(scale: float) -> bytes:
    topics = [CreatePartitionsTopic(name=f"x{n}", count=2, assignments=None) for n in range(int(300_000 * scale))]
    return whole(CreatePartitionsRequest(topics=topics, timeout_ms=1000), 3)


def acls(scale: float) -> bytes:
    return whole(CreateAclsRequest(creations=[acl()] * int(1_000_000 * scale)), 3)


CASES = [
    Case("Metadata, 1 M unknown topics", lambda scale: whole(
        MetadataRequest(topics=[MetadataRequestTopic(name=f"x{n}") for n in range(int(1_000_000 * scale))],
                        allow_auto_topic_creation=False), 12)),
    Case("Metadata, 20 M tags in the header", lambda scale: metadata_frame(many_tags(int(20_000_000 * scale)))),
    Case("Produce, 20 M tags in the header", lambda scale: frame(
        ApiKey.PRODUCE, 9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\x01\0", tags=many_tags(int(20_000_000 * scale)))),
    Case("Produce, 20 M tags in the body", lambda scale: frame(
        ApiKey.PRODUCE, 9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\x01" + many_tags(int(20_000_000 * scale)))),
    Case("Produce, 2 M empty partitions", empty_partitions),
    Case("Produce, 2 M empty topics", empty_topics),
    Case("Produce v3, 1 M unknown partitions", unknown_partitions),
    Case("Produce, 100 zstd bombs of 120 MB", lambda scale: bomb(max(1, int(100 * scale)))),
    Case("Produce, a bomb on each of 50 connections", lambda scale: bomb(1), connections=50),
    Case("Produce, 90 batches of 1 MB", lambda scale: whole(ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[
            PartitionProduceData(index=index, records=batch([os.urandom(1_000_000)]))
            for index in range(max(1, int(90 * scale)))])]), 9)),
    Case("Fetch, 500,000 partitions", fetch),
    Case("ListOffsets, 1 M partitions", list_offsets(-1)),
    Case("ListOffsets by time, 1 M partitions", list_offsets(1)),
    Case("OffsetForLeaderEpoch, 1 M partitions", leader_epochs),
    Case("DeleteRecords, 1 M partitions", delete_records),
    Case("CreateTopics, 500,000 bad ones", create_topics),
    Case("CreateTopics, 10,000 good ones", create_good_topics),
    Case("DeleteTopics, 1 M unknown", delete_topics),
    Case("DeleteTopics, 10,000 good ones", lambda scale: whole(DeleteTopicsRequest(
        topic_names=good_topics(scale)), 5), prepare=lambda broker, scale: sent(broker, create_good_topics(scale))),
    Case("CreatePartitions, 300,000 unknown", grow),
    Case("DescribeConfigs, 300,000 times one topic", lambda scale: describe_configs(2, TOPIC, int(300_000 * scale))),
    Case("DescribeConfigs, 8,000 times the broker", lambda scale: describe_configs(4, "0", int(8_000 * scale))),
    Case("DescribeConfigs, 300,000 groups", lambda scale: whole(DescribeConfigsRequest(resources=[
        DescribeConfigsResource(resource_type=32, resource_name=f"g{n}", configuration_keys=None)
        for n in range(int(300_000 * scale))]), 4)),
    Case("IncrementalAlterConfigs, 30,000 times one topic", lambda scale: alter_configs(
        [TOPIC] * int(30_000 * scale), 2, "retention.ms", "1000000")),
    Case("IncrementalAlterConfigs, 30,000 groups", lambda scale: alter_configs(
        [f"g{n}" for n in range(int(30_000 * scale))], 32, "consumer.session.timeout.ms", "50000")),
    Case("IncrementalAlterConfigs, 300,000 unknown topics", lambda scale: alter_configs(
        [f"x{n}" for n in range(int(300_000 * scale))], 2, "retention.ms", "1000000")),
    Case("DescribeTopicPartitions, 1 M unknown", lambda scale: whole(DescribeTopicPartitionsRequest(
        topics=[DescribedTopic(name=f"x{n}") for n in range(int(1_000_000 * scale))],
        response_partition_limit=2000), 0)),
    Case("DescribeLogDirs, 20 M partitions", lambda scale: whole(DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=TOPIC, partitions=indexes(scale))]), 4)),
    Case("AlterReplicaLogDirs, 300,000 partitions", move),
    Case("DescribeProducers, 1 M partitions", lambda scale: whole(DescribeProducersRequest(
        topics=[TopicRequest(name=TOPIC, partition_indexes=indexes(scale, 1_000_000))]), 0)),
    Case("DescribeTransactions, 1 M ids", lambda scale: whole(DescribeTransactionsRequest(
        transactional_ids=[f"x{n}" for n in range(int(1_000_000 * scale))]), 0)),
    Case("AddPartitionsToTxn, 1 M partitions", add_partitions),
    Case("WriteTxnMarkers, 1 M partitions", markers),
    Case("ElectLeaders, 1 M partitions", lambda scale: whole(ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=TOPIC, partitions=indexes(scale, 1_000_000))], timeout_ms=1000), 2)),
    Case("AlterPartitionReassignments, 1 M partitions", reassign),
    Case("AlterClientQuotas, 300,000 entries", quotas),
    Case("CreateAcls, 1 M entries", acls),
]  # fmt: skip
