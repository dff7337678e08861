"""A broker that responds only to metadata requests, to prove that callers keep their own deadlines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kafkalog.protocol.messages.delete_records import DeleteRecordsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkalog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest
from kafkalog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkalog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.support.scripted import Handler, ScriptedBroker, metadata

UNANSWERED = (
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    IncrementalAlterConfigsRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
SILENT_S = 120.0
"""The longest silence in a test; `request.timeout.ms` is longer."""
TP = TopicPartition("t", 0)


@contextmanager
def silent_broker() -> Iterator[ClientConfig]:
    """Run such a broker, which leads `TP`; return a client's configuration for it."""
    released = threading.Event()

    def wait(request: Any) -> None:
        released.wait(SILENT_S)

    handlers: dict[Any, Handler] = dict.fromkeys(UNANSWERED, wait)
    handlers[MetadataRequest] = lambda request: metadata({0: broker}, {(TP.topic, TP.partition): 0}, controller=0)
    broker = ScriptedBroker(handlers)
    with broker:
        try:
            yield ClientConfig.from_dict(
                {
                    "bootstrap.servers": broker.address,
                    "request.timeout.ms": round(SILENT_S * 2000),
                    "default.api.timeout.ms": 500,
                }
            )
        finally:
            released.set()
