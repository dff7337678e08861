"""Read a compacted topic from its beginning to its present end. So a mirror finds what it, or another one, has stored.

Reading waits for the end of open transactions, whose records may not be read before. A process that first ends its own
transactions (by `init_transactions`) reads all that they committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.offsets import EARLIEST, LATEST, list_offsets
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import ErrorCode

_POLL_S = 0.5


def partitions_of(cluster: Cluster, topic: str) -> list[int]:
    """List a topic's partitions; none where it does not exist."""
    found = cluster.metadata([topic], refresh=True).topics[topic]
    return [] if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else sorted(found.partitions)


def read_topic(properties: Mapping[str, str], topic: str, timeout: float) -> Iterator[ConsumerRecord]:
    """Yield the committed records of a topic up to its end; none where it does not exist.

    Raises:
        ClientTimeoutError: It took longer than `timeout` seconds, perhaps because a transaction is open.
        KafkaError: The broker reports an error.
    """
    committed = {**properties, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    config = ClientConfig.from_dict(committed)
    deadline = time.monotonic() + timeout
    with Cluster(config) as cluster:
        partitions = [TopicPartition(topic, number) for number in partitions_of(cluster, topic)]
        if not partitions:
            return
        ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST), deadline=deadline)
        starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST), deadline=deadline)
        left = {tp: found.offset for tp, found in ends.items() if found.offset > starts[tp].offset}
        with SimpleConsumer(config, cluster=cluster) as consumer:
            consumer.assign(left)
            for tp in left:
                consumer.seek(tp, starts[tp].offset)
            while left:
                yield from consumer.poll(_POLL_S)
                left = {tp: end for tp, end in left.items() if consumer.position(tp) < end}
                if left and time.monotonic() > deadline:
                    tp, end = next(iter(left.items()))
                    raise ClientTimeoutError(
                        f"{tp} was read up to offset {consumer.position(tp)} only, of {end}, in {timeout:g} s; a "
                        "transaction there may be open: `kafkalog transactions list` shows it"
                    )
