"""Asks brokers where their logs of partitions end (`effects.Ask`), by ListOffsets.

The replica id is that of a debugging consumer: not only leaders answer to it, and up to the end of the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from broker.cluster_links import Connect
from broker.controller.cluster.model.context import PartitionKey
from broker.controller.cluster.model.effects import LogEnd
from broker.metadata.model import BrokerRegistration
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

PURPOSE = "log-ends"
DEBUGGING_REPLICA = -2
LATEST = -1
EPOCHS_SINCE = 4


async def ask(
    connect: Connect,
    brokers: Mapping[int, BrokerRegistration],
    wanted: Mapping[int, Sequence[PartitionKey]],
    timeout_s: float,
) -> dict[int, dict[PartitionKey, LogEnd]]:
    """Return by broker where its logs end; those are left out that do not answer in time, or have no such log."""
    known = [each for each in wanted if each in brokers]
    found = await asyncio.gather(*(_ask_one(connect, brokers[each], wanted[each], timeout_s) for each in known))
    return dict(zip(known, found, strict=True))


async def _ask_one(
    connect: Connect, broker: BrokerRegistration, keys: Sequence[PartitionKey], timeout_s: float
) -> dict[PartitionKey, LogEnd]:
    topics: dict[str, ListOffsetsTopic] = {}
    for topic, index in keys:
        named = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        named.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    request = ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=list(topics.values()))
    try:
        link = connect(broker, PURPOSE)
    except LinkError as error:
        logger.warning("broker %d cannot be asked where its logs end: %s", broker.broker_id, error)
        return {}
    try:
        async with asyncio.timeout(timeout_s):
            response: ListOffsetsResponse = await link.request(request, timeout=timeout_s, min_version=EPOCHS_SINCE)
    except (LinkError, UnsupportedVersionError, TimeoutError) as error:
        logger.warning("broker %d does not say where its logs end: %r", broker.broker_id, error)
        return {}
    finally:
        await link.close()
    return {
        (topic.name, each.partition_index): LogEnd(each.leader_epoch, each.offset)
        for topic in response.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.offset >= 0
    }
