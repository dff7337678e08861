"""Find out how large batches of joined ones may be in the target's topics."""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigResource
from kafkalog.mirror.copying.batching.joining import JOINED_BYTES
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


def size_limits(settings: MirrorSettings, target: Admin, topics: Collection[str]) -> dict[str, int]:
    """Return the limits of topics of the source; those whose configuration may not or cannot be read are left out."""
    named = {ConfigResource.topic(settings.naming.remote(topic)): topic for topic in topics}
    try:
        configs = target.describe_configs(list(named)) if named else {}
    except KafkaError as error:
        logger.info("small batches are sent one by one: max.message.bytes of topics is not known: %s", error)
        return {}
    limits = {
        named[resource]: entries["max.message.bytes"].value
        for resource, entries in configs.items()
        if "max.message.bytes" in entries
    }
    return {topic: min(int(limit), JOINED_BYTES) for topic, limit in limits.items() if limit is not None}
