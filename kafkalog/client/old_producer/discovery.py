"""Finds the brokers in ZooKeeper, and tells when brokers, topics or partitions have changed.

One thread looks at ZooKeeper after each change that a watch tells of, and after each new connection, because watches
end with the one before. ZooKeeper knows of new partitions before the brokers do; so it looks again until the producers
know them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.client.closing import Closing
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.brokers import in_session
from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import Children, Read, ZooKeeperError
from kafkalog.zookeeper.values import SessionState

logger = logging.getLogger(__name__)

_BROKERS, _TOPIC = "brokers", "topic"
_AGAIN_S = 1.0
"""The pause after a look that failed, or that was ahead of the brokers."""
_END_S = 10.0

Changed = Callable[[str, Mapping[str, int]], bool]


class Discovery(Closing):
    """The brokers and topics of a cluster, by its ZooKeeper.

    Args:
        open_session: Opens a session with these arguments of `ZooKeeperSession`.
        protocol: The security protocol of the brokers' listeners.
        changed: Called on a thread of this object after each change, with the live brokers' addresses and the number
            of partitions of each topic. It returns whether it is to be called again soon, without another change.

    Attributes:
        bootstrap_servers: The brokers' addresses at the last look.

    Raises:
        ConnectionLossError, AccessDeniedError: As `ZooKeeperSession`.
        ZooKeeperError: No broker is registered.
    """

    def __init__(self, open_session: Callable[..., ZooKeeperSession], protocol: str, changed: Changed) -> None:
        self._protocol = protocol
        self._told = changed
        self._lock = threading.Lock()
        self._topics: set[str] = set()
        self._stirred = threading.Event()
        self._ended = threading.Event()
        self._session = open_session(on_watch=self._watched, on_state=self._state_changed)
        try:
            self.bootstrap_servers, _ = self._look()
        except ZooKeeperError:
            self._session.close()
            raise
        self._thread = threading.Thread(target=self._follow, name="kafkalog-producer-discovery", daemon=True)
        self._thread.start()

    def watch(self, topic: str) -> None:
        """Tell of changes of this topic's partitions from now on."""
        with self._lock:
            if topic in self._topics:
                return
            self._topics.add(topic)
        self._stirred.set()

    def close(self) -> None:
        """End the session and the thread."""
        self._ended.set()
        self._stirred.set()
        self._thread.join(_END_S)
        self._session.close()

    def _watched(self, value: Any) -> None:
        self._stirred.set()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._stirred.set()

    def _look(self) -> tuple[str, dict[str, int]]:
        """Read the brokers and the numbers of partitions, and set all watches."""
        # The watch first, so that no change between it and the reading is lost.
        self._session.perform(Children(nodes.BROKER_IDS, _BROKERS))
        with self._lock:
            topics = sorted(self._topics)
        counts: dict[str, int] = {}
        for topic in topics:
            path = nodes.topic(topic)
            node = self._session.perform(Read(path, (_TOPIC, topic)))
            if node is not None:
                # What cannot be read is the brokers' concern.
                with contextlib.suppress(nodes.MalformedNodeError):
                    counts[topic] = len(nodes.parse_partitions(path, node.data))
        return in_session(self._session, self._protocol), counts

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._stirred.wait()
            self._stirred.clear()
            if self._ended.is_set():
                return
            try:
                self.bootstrap_servers, counts = self._look()
            except ZooKeeperError as error:
                # Known brokers stay in use meanwhile.
                logger.warning("looking for brokers in ZooKeeper: %s", error)
                again = True
            else:
                again = self._told(self.bootstrap_servers, counts)
            if again and not self._ended.wait(_AGAIN_S):
                self._stirred.set()
