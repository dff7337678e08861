"""Properties of a target's file for the producer of Kafka 0.8 and before.

They are read as `kafkalog.client.old_producer` reads them, with these exceptions, which are as in MirrorMaker since
Kafka 0.9, whose producer is today's:

- Keys choose partitions as in the producer of today.
- Unless `request.required.acks` is set, a record counts as delivered once every replica in the ISR has it.
- Unless `message.send.max.retries` is set, a record is sent again until it is delivered.
- There is no queue before the producer: `queue.buffering.max.ms` is `linger.ms`, and its other limits have no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafkalog.client.old_producer.config import SYNC, OldProducerConfig
from kafkalog.mirror.legacy.defaults import FOR_EVER
from kafkalog.mirror.legacy.passing import SERIALIZERS, without

logger = logging.getLogger(__name__)

OLD_PRODUCER = frozenset({"metadata.broker.list", "broker.list", "zk.connect", "zookeeper.connect"})
"""Each of these makes the properties those of an old producer, unless there is `bootstrap.servers`."""
_CLASSES = ("partitioner.class", "serializer.class", "key.serializer.class")
_LINGER = frozenset({"queue.buffering.max.ms", "queue.time"})
_WAITS = "a record waits until there is room for it"
_BYTES = "buffer.memory limits the records that wait"
_BATCHES = "a batch is limited by its size in bytes"
_INSTEAD = {
    "queue.enqueue.timeout.ms": _WAITS,
    "queue.enqueueTimeout.ms": _WAITS,
    "queue.buffering.max.messages": _BYTES,
    "queue.size": _BYTES,
    "batch.num.messages": _BATCHES,
    "batch.size": _BATCHES,
}
"""Properties without effect, each with what happens instead."""
_NOT_SYNC = "records are sent in the background, and committed once they are delivered"


def is_old_producer(properties: Mapping[str, str]) -> bool:
    """Tell whether properties are those of a producer of Kafka 0.8 or before."""
    return "bootstrap.servers" not in properties and not OLD_PRODUCER.isdisjoint(properties)


def old_config(properties: Mapping[str, str]) -> OldProducerConfig:
    """Read the properties, and log one warning of those that have no effect.

    Raises:
        ConfigError: A property cannot have its value.
    """
    reason = "keys and values pass as bytes, and keys choose partitions"
    given = without((*_CLASSES, *SERIALIZERS), properties, reason)
    more: dict[str, Any] = dict(FOR_EVER)
    if "request.required.acks" not in given:
        more["acks"] = "all"
    if not {"message.send.max.retries", "num.retries"} & given.keys():
        more["retries"] = str(0x7FFFFFFF)
    config = OldProducerConfig.from_dict({**given, **more})
    instead = {**config.instead, **{key: _INSTEAD[key] for key in given if key in _INSTEAD}}
    if config.producer_type == SYNC and "producer.type" in given:
        instead["producer.type"] = _NOT_SYNC
    elif "linger.ms" not in given and not _LINGER.isdisjoint(given):
        lingering = {**given, **more, "linger.ms": str(round(config.buffering_max * 1000))}
        config = OldProducerConfig.from_dict(lingering)
    if instead:
        listed = "; ".join(f"{key} ({what})" for key, what in sorted(instead.items()))
        logger.warning("without effect here: %s", listed)
    if config.required_acks == 0 and "request.required.acks" in given:
        logger.warning("request.required.acks=0: records that the target does not take are lost without an error")
    return config
