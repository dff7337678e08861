"""Leave out topics whose configuration in one cluster cannot be read, until it can.

It would tell whether the topic is a mirror of the other cluster. Without it, the source's records might come in the
target between those of another topic, or a topic of the source that the reverse mirror writes might go round for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import UNREADABLE, ConfigAdmin, ConfigResource
from kafkalog.mirror.keeping.topics import node_that_takes_offsets
from kafkalog.mirror.rechecks import MirrorableAgainError

logger = logging.getLogger(__name__)


class UnreadableTopics:
    """The topics that a worker leaves out, because their configurations cannot be read.

    Args:
        admin: The cluster with these topics.
        side: `source` or `target`, for the log.
        topics: The topics, by their names there.
    """

    def __init__(self, admin: Admin, side: str, topics: Collection[str] = ()) -> None:
        self._cluster, self._side = admin.cluster, side
        self._topics = [ConfigResource.topic(topic) for topic in sorted(topics)]

    def __bool__(self) -> bool:
        return bool(self._topics)

    def check(self) -> None:
        """Look at the topics, and name them in the log.

        Raises:
            MirrorableAgainError: The configuration of one can be read.
            KafkaError, ClientError: The cluster cannot be asked.
        """
        if not self._topics:
            return
        # Others may not tell that they cannot read it.
        admin = ConfigAdmin(self._cluster, node_id=node_that_takes_offsets(self._cluster))
        for resource, entries in admin.describe_configs(self._topics).items():
            if UNREADABLE not in entries:
                raise MirrorableAgainError(f"the configuration of topic {resource.name} can be read again")
            logger.warning(
                "topic %s is left out, because its configuration in the %s cannot be read: %s",
                resource.name,
                self._side,
                entries[UNREADABLE].value,
            )
