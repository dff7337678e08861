"""Forgets topics of the metadata that ZooKeeper does not have any more.

The controller tells the registered brokers of a deletion, once. A broker that is not registered then, because its
session has expired, learns of all topics when it is registered again, but not which are gone. So does a broker of
Apache Kafka: it tells clients of the leaders of such a topic until it is started anew.
"""

from __future__ import annotations

import logging

from broker.member.control.control import PublishedStore
from broker.metadata.model import TopicState
from broker.metadata.znodes import paths
from broker.zookeeper.interface import ZooKeeper

logger = logging.getLogger(__name__)

NAMED = 10
"""The number of topics that a message names."""


class GoneTopics:
    """Compares the topics of the metadata with ZooKeeper. Used on the event loop's thread only.

    Args:
        zookeeper: the session of this broker.
        store: the cluster's metadata.
    """

    def __init__(self, zookeeper: ZooKeeper, store: PublishedStore) -> None:
        self._zookeeper = zookeeper
        self._store = store
        self._missing: dict[str, TopicState] = {}
        """The topics that the last look did not find, as the metadata had them."""

    async def look(self) -> bool:
        """Forget the topics that neither this look nor the last one finds; return whether to look again soon.

        The server of this session may be behind the others, and not have a new topic yet. The committed offsets of a
        forgotten topic are deleted. So a topic stays, too, if the controller has told of it between the looks.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """
        known = self._store.state.topics
        present = set(await self._zookeeper.children(paths.TOPICS))
        missing = {name: topic for name, topic in known.items() if name not in present}
        gone = {name: topic for name, topic in missing.items() if self._missing.get(name) is topic}
        self._missing = {name: topic for name, topic in missing.items() if name not in gone}
        if gone:
            named = ", ".join(sorted(gone)[:NAMED])
            logger.warning("%d topics are forgotten, because ZooKeeper does not have them: %s", len(gone), named)
            self._store.forget_topics(gone.values())
        return bool(self._missing)
