"""Watch the metadata of the topics of interest. A thread of its own fetches it, because that may take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.config import STEADY_TRIES, ConsumerConfig
from kafkalog.client.consumer.subscription import SubscriptionState, SubscriptionType
from kafkalog.client.consumer.threads import Monitor, Worker
from kafkalog.client.errors import about
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import InvalidTopicError, TopicAuthorizationFailedError

logger = logging.getLogger(__name__)

_IDLE_S = 5.0
_MISSING_S = 1.0
"""The interval at which topics that do not exist are looked for."""


class MetadataWatcher:
    """Keeps the metadata of the topics of interest up to date.

    Only the fetcher's thread uses it, except for `refresh`. `wake` ends that thread's wait, and `on_metadata` is
    called with new metadata.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        on_metadata: Callable[[ClusterMetadata], None],
        wake: Callable[[], None],
    ) -> None:
        self._config, self._client, self._cluster = config, config.client, cluster
        self._subscription, self._monitor = subscription, monitor
        self._on_metadata = on_metadata
        self._worker = Worker("kafkalog-consumer-metadata", wake)
        self._asking: Future[ClusterMetadata] | None = None
        self._backoff = client_backoff(config.client, steady=STEADY_TRIES)
        self._fruitless = 0
        """The number of fetches in a row that failed, or that brought the leaders known before."""
        self._leaders: Mapping[TopicPartition, Any] = {}
        self._begun = self._at = self._again_at = 0.0
        self._is_sought = False
        self._refresh = False
        self._watched: frozenset[str] | None = frozenset()
        self._missing: frozenset[str] = frozenset()
        """The missing topics that were logged."""

    def refresh(self) -> None:
        """Fetch metadata now. If a fetch is under way, fetch once more, since it may have begun before the change."""
        self._refresh = True

    def soon(self) -> None:
        """Fetch metadata because some leader is unknown, after a pause that grows while no other leader is found."""
        self._is_sought = True
        self._at = min(self._at, self._again_at)

    def next_time(self) -> float:
        """Return when to call `step` even if nothing has come (`time.monotonic`)."""
        if self._asking is not None:
            return float("inf")
        return 0.0 if self._refresh else self._at

    def stop(self) -> None:
        """Let the worker thread end."""
        self._worker.stop(0)

    def step(self) -> None:
        """Begin to fetch metadata if that is due, or handle metadata that has come.

        After an error another fetch follows, after a pause that grows.

        Raises:
            Exception: A fetch has failed, or the metadata has an error for the application.
        """
        if self._asking is not None:
            if self._asking.done():
                asking, self._asking = self._asking, None
                try:
                    self._note(asking.result())
                except Exception:
                    self._fruitless += 1
                    self._is_sought = True
                    self._at = self._again_at = time.monotonic() + self._pause
                    raise
            return
        now = time.monotonic()
        # Read it before the topics of interest: a change after that causes another refresh.
        refresh, self._refresh = self._refresh, False
        with self._monitor.lock:
            kind = self._subscription.kind
            wanted = None if self._subscription.watches_all else self._subscription.watched
        if kind is SubscriptionType.NONE or wanted == frozenset():
            self._at = now + _IDLE_S
            return
        if now < self._at and wanted == self._watched and not refresh:
            return
        if refresh or wanted != self._watched or not self._is_sought:
            # Nothing is wrong; as in Java, metadata that has become old does not count as fruitless.
            self._fruitless = 0
        self._is_sought, self._begun = False, now
        self._at = self._again_at = now + self._pause
        self._watched = wanted
        create = self._config.allow_auto_create_topics and kind is SubscriptionType.AUTO_TOPICS
        self._asking = self._worker.submit(
            lambda: self._cluster.metadata(
                wanted, refresh=True, deadline=now + self._client.request_timeout, allow_auto_topic_creation=create
            )
        )

    @property
    def _pause(self) -> float:
        return max(self._backoff.pause(self._fruitless), 0.01)

    def _note(self, found: ClusterMetadata) -> None:
        leaders = {
            TopicPartition(name, number): (found.brokers.get(each.leader), each.leader_epoch)
            for name, topic in found.topics.items()
            for number, each in topic.partitions.items()
        }
        self._fruitless = self._fruitless + 1 if leaders == self._leaders else 0
        self._leaders, self._is_sought = leaders, False
        self._again_at = self._begun + self._pause
        if self._watched is not None and self._subscription.watches_all:
            # This is metadata of some topics, and by now all topics are of interest.
            return
        refused: Exception | None = None
        missing: dict[str, Exception] = {}
        for topic in found.topics.values():
            error = about(topic.error_code, f"topic {topic.name}") if topic.error_code else None
            if isinstance(error, InvalidTopicError | TopicAuthorizationFailedError) and self._watched is not None:
                refused = refused or error
            elif error is not None:
                missing[topic.name] = error
        for name in missing.keys() - self._missing:
            logger.warning("topic %s cannot be read now; looking for it again: %s", name, missing[name])
        self._missing = frozenset(missing)
        age = self._client.metadata_max_age
        self._at = max(self._again_at, time.monotonic() + (min(_MISSING_S, age) if missing else age))
        self._on_metadata(found)
        self._monitor.notify()
        if refused is not None:
            # The other topics are known all the same, as in Java (`Metadata.update`).
            raise refused
