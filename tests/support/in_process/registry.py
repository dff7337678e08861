"""Make changes of the registry for tests."""

from __future__ import annotations

from dataclasses import replace

from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import ChangePartitions, ConfigResource, CreateTopic, Operation, SetConfig
from broker.metadata.store import Decision


def having(*topics: TopicState) -> Decision:
    """Decide to create or alter the given topics."""

    def decide(state: ClusterState) -> list[Operation]:
        operations: list[Operation] = []
        for topic in topics:
            present = state.topics.get(topic.name)
            if present is None:
                operations.append(CreateTopic(topic))
                continue
            changed = {
                index: replace(wanted, partition_epoch=found.partition_epoch + 1)
                for index, (wanted, found) in enumerate(zip(topic.partitions, present.partitions, strict=True))
                if wanted != found
            }
            if changed:
                operations.append(ChangePartitions(topic.name, changed))
            if topic.config != present.config:
                operations.append(SetConfig(ConfigResource.TOPIC, topic.name, topic.config))
        return operations

    return decide


def with_topics(state: ClusterState, *topics: TopicState) -> ClusterState:
    """Return a state that has these topics, too."""
    return replace(state, topics={**state.topics, **{topic.name: topic for topic in topics}})
