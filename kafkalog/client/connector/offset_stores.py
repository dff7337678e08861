"""The stores of a group's offsets: ZooKeeper, Kafka, or both while the group moves from one to the other.

With `offsets.storage=kafka` and `dual.commit.enabled` each commit goes to Kafka and then to ZooKeeper, and the larger
of the two offsets is read. So members that know only one of the stores see the progress of the others.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector.config import KAFKA, ZOOKEEPER, ConnectorConfig
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import Read, SessionExpiredError, Steps, put
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


def read_offsets(group: str, partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
    """Read a group's offsets in ZooKeeper; partitions without one are left out."""
    found: dict[TopicPartition, int] = {}
    for tp in partitions:
        path = nodes.offset(group, tp)
        node = yield Read(path)
        if node is not None and (offset := nodes.parse_offset(path, node.data)) >= 0:
            found[tp] = offset
    return found


def write_offsets(group: str, offsets: Offsets, *, only_while: str | None = None) -> Steps[None]:
    """Write a group's offsets to ZooKeeper, as long as the node `only_while` exists (`steps.put`)."""
    for tp, offset in offsets.items():
        yield from put(nodes.offset(group, tp), str(offset).encode(), only_while=only_while)


class PartitionsReleasedError(ClientError):
    """The partitions are being given up; they may be another member's already."""


class OffsetStore(Protocol):
    """Committed offsets of one group."""

    def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets; partitions without one are left out."""

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets."""

    def close(self) -> None:
        """Release all resources."""


class ZooKeeperOffsets(Closing):
    """Offsets in ZooKeeper.

    Args:
        session: The session.
        group: The group.
        member_path: The node of the member, without which nothing is committed.
        committed: Called after a commit with the number of offsets.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        group: str,
        member_path: str,
        committed: Callable[[int], object] = lambda count: None,
    ) -> None:
        self._session = session
        self._group = group
        self._member_path = member_path
        self._committed = committed
        self._written: dict[TopicPartition, int] = {}

    def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._session.run(read_offsets(self._group, partitions))
        self._written = dict(found)
        return found

    def commit(self, offsets: Offsets) -> None:
        """Write the offsets that have changed.

        Raises:
            SessionExpiredError: The member's session has expired.
            ZooKeeperError: ZooKeeper does not answer.
        """
        for tp, offset in offsets.items():
            if self._written.get(tp) != offset:
                self._session.run(write_offsets(self._group, {tp: offset}, only_while=self._member_path))
                self._written[tp] = offset
                self._committed(1)

    def close(self) -> None:
        """Do nothing: the session is the connector's."""


class KafkaOffsets(Closing):
    """Offsets in Kafka, committed as by a program outside of a group that brokers coordinate.

    Args:
        config: The client's settings, which say how long to try.
        group: The group.
        committed: Called after a commit with the number of offsets.
    """

    def __init__(
        self, config: ClientConfig, group: str, committed: Callable[[int], object] = lambda count: None
    ) -> None:
        self._committed = committed
        self._cluster = Cluster(config)
        self._offsets = GroupOffsets(self._cluster, group)

    def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets.committed(partitions) if partitions else {}

    def commit(self, offsets: Offsets) -> None:
        """Commit all offsets.

        Raises:
            ClientError, KafkaError: The group's coordinator cannot be reached, or refuses them.
        """
        self._offsets.commit(offsets)
        self._committed(len(offsets))

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()


class DualOffsets(Closing):
    """Offsets in Kafka and in ZooKeeper, of which the larger one is read."""

    def __init__(self, kafka: OffsetStore, zookeeper: OffsetStore) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._zookeeper.load(partitions)
        for tp, offset in self._kafka.load(partitions).items():
            found[tp] = max(offset, found.get(tp, offset))
        return found

    def commit(self, offsets: Offsets) -> None:
        self._kafka.commit(offsets)
        self._zookeeper.commit(offsets)

    def close(self) -> None:
        """Close both stores."""
        self._kafka.close()
        self._zookeeper.close()


class ChosenStore(Closing):
    """The store that `offsets.storage` chooses, made when it is first used, and again after `close`.

    Args:
        config: The connector's settings.
        session: The session.
        client: Makes the settings of a client of the live brokers, with these properties.

    Attributes:
        commits: The number of committed offsets, by the store that keeps them.
    """

    def __init__(self, config: ConnectorConfig, session: ZooKeeperSession, client: Callable[..., ClientConfig]) -> None:
        self._config, self._session, self._client = config, session, client
        self._made: OffsetStore | None = None
        self.commits: Counter[str] = Counter()

    def opened(self, member_path: str) -> OffsetStore:
        """Return the store, for the member with this node.

        Raises:
            ZooKeeperError: No live broker can be found, for offsets in Kafka.
        """
        if self._made is None:
            config = self._config
            zookeeper = ZooKeeperOffsets(self._session, config.group_id, member_path, self._count(ZOOKEEPER))
            if config.offsets_storage == KAFKA:
                timeout = str(round(config.offsets_channel_socket_timeout * 1000))
                client = self._client(request_timeout_ms=timeout, default_api_timeout_ms=timeout)
                kafka = KafkaOffsets(client, config.group_id, self._count(KAFKA))
                self._made = DualOffsets(kafka, zookeeper) if config.is_dual else kafka
            else:
                self._made = zookeeper
        return self._made

    def close(self) -> None:
        """Close the store."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _count(self, store: str) -> Callable[[int], None]:
        def count(offsets: int) -> None:
            self.commits[store] += offsets

        return count


def commit_with_retries(
    commit: Callable[[], None], retries: int, backoff: float, sleep: Callable[[float], object] = time.sleep
) -> bool:
    """Call `commit` until it succeeds, with at most so many retries; return whether it did. Errors are logged.

    There is no retry once the session has expired, or the partitions are given up.
    """
    for left in range(retries, -1, -1):
        try:
            commit()
        except (ClientError, KafkaError) as error:
            logger.error("offsets were not committed: %s", error)
            if isinstance(error, SessionExpiredError | PartitionsReleasedError):
                return False
            if left:
                sleep(backoff)
        else:
            return True
    return False
