"""Leave out topics whose configuration in the target cannot be read, until it can.

It would tell whether the topic is a mirror of the source. Without it, the source's records might come between those of
another topic.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import UNREADABLE, ConfigAdmin, ConfigResource
from kafkalog.mirror.keeping.topics import node_that_takes_offsets
from kafkalog.mirror.rechecks import MirrorableAgainError
from kafkalog.mirror.topics.naming import Naming

logger = logging.getLogger(__name__)


class UnreadableTopics:
    """The topics of the source that a worker leaves out, because the target cannot read their configurations.

    Args:
        topics: these topics, by their names in the source.
    """

    def __init__(self, naming: Naming, target: Admin, topics: Collection[str] = ()) -> None:
        self._target = target
        self._remote = [ConfigResource.topic(naming.remote(topic)) for topic in sorted(topics)]

    def __bool__(self) -> bool:
        return bool(self._remote)

    def check(self) -> None:
        """Look at the topics, and name them in the log.

        Raises:
            MirrorableAgainError: The configuration of one can be read.
            KafkaError, ClientError: The target cannot be asked.
        """
        if not self._remote:
            return
        # Others may not tell that they cannot read it.
        admin = ConfigAdmin(self._target.cluster, node_id=node_that_takes_offsets(self._target.cluster))
        for resource, entries in admin.describe_configs(self._remote).items():
            if UNREADABLE not in entries:
                raise MirrorableAgainError(f"the configuration of topic {resource.name} can be read again")
            logger.warning(
                "topic %s is left out, because its configuration in the target cannot be read: %s",
                resource.name,
                entries[UNREADABLE].value,
            )
