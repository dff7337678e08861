"""The cluster's topics as groups of the consumer protocol see them (`modern.context.Topics`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.coordinator.group.modern.model import TopicMetadata
from broker.metadata.model import TopicState
from broker.metadata.store import MetadataStore


class ClusterTopics:
    """Always the newest state of the registry.

    The version is the registry's revision in which a change of the topics was first seen, so that it grows over
    restarts as well.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._seen: Mapping[str, TopicState] | None = None
        self._version = -1
        self._names: dict[UUID, str] = {}

    @property
    def version(self) -> int:
        self._look()
        return self._version

    def get(self, name: str) -> TopicMetadata | None:
        topic = self._store.state.topics.get(name)
        return None if topic is None else TopicMetadata(topic.topic_id, name, len(topic.partitions))

    def name_of(self, topic_id: UUID) -> str | None:
        self._look()
        return self._names.get(topic_id)

    def names(self) -> Iterable[str]:
        return self._store.state.topics

    def _look(self) -> None:
        state = self._store.state
        # A state shares its topics with the one before where they did not change.
        if state.topics is not self._seen:
            self._seen = state.topics
            self._version = max(state.revision, self._version + 1)
            self._names = {topic.topic_id: name for name, topic in state.topics.items()}
