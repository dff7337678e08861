"""The committed offsets of a consumer group, read and written from outside of the group, as admin tools do.

A commit names no member. The group's coordinator accepts it while the group has no members, and otherwise refuses it
(UnknownMemberIdError). Reading them consumes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kafkalog.client.admin.groups.descriptions import CommittedOffset
from kafkalog.client.cluster import Cluster
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import about, left_out
from kafkalog.client.metadata import Broker
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kafkalog.protocol.wire.releases import OFFSETS_OF_GROUPS

T = TypeVar("T")


class GroupOffsets:
    """Read and write the committed offsets of one group.

    The coordinator is looked up when needed, and again when it moved.
    """

    def __init__(self, cluster: Cluster, group: str, *, coordinators: Coordinators | None = None) -> None:
        self._cluster = cluster
        self._group = group
        self._coordinators = coordinators or Coordinators(cluster)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        metadata: str = "",
        deadline: float | None = None,
    ) -> None:
        """Commit positions (the next offsets to read), with a note that the group's description shows.

        A `CommittedOffset` brings its own note and leader epoch; `metadata` is the note of the others.

        Retriable errors are retried until `deadline` (`time.monotonic`; `default.api.timeout.ms` from now unless
        given). Other errors are raised at once. The first error of a partition is raised once the other partitions have
        been committed.

        Raises:
            ClientTimeoutError: The deadline has passed.
            UnknownMemberIdError: The group has members.
            GroupAuthorizationFailedError: The client may not use the group.
            KafkaError: The coordinator reports another error.
        """
        if not offsets:
            return
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for tp, position in sorted(offsets.items()):
            at = position if isinstance(position, CommittedOffset) else CommittedOffset(position, metadata=metadata)
            topics[tp.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=at.offset,
                    committed_leader_epoch=at.leader_epoch,
                    committed_metadata=at.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

        def attempt(coordinator: Broker, timeout: float) -> None:
            answer: OffsetCommitResponse = self._cluster.request_to(coordinator.node_id, request, timeout=timeout)
            unanswered = set(offsets)
            for topic in answer.topics:
                for each in topic.partitions:
                    self._check(each.error_code, f"committing {topic.name}-{each.partition_index}")
                    unanswered.discard(TopicPartition(topic.name, each.partition_index))
            if unanswered:
                raise left_out(f"partition {min(unanswered)}")

        self._ask(attempt, deadline)

    def committed(
        self, partitions: Collection[TopicPartition] | None = None, *, deadline: float | None = None
    ) -> dict[TopicPartition, int]:
        """Read the committed positions of these partitions (None: all); partitions without one are left out."""
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in partitions or ():
            topics[tp.topic].append(tp.partition)
        request = OffsetFetchRequest(
            group_id=self._group,
            topics=None
            if partitions is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()],
        )

        def attempt(coordinator: Broker, timeout: float) -> dict[TopicPartition, int]:
            answer: OffsetFetchResponse = self._cluster.request_to(
                coordinator.node_id, request, timeout=timeout, max_version=OFFSETS_OF_GROUPS.version - 1
            )
            self._check(answer.error_code, "reading offsets")
            found = {}
            for topic in answer.topics:
                for each in topic.partitions:
                    self._check(each.error_code, f"reading the offset of {topic.name}-{each.partition_index}")
                    if each.committed_offset >= 0:
                        found[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
            return found

        return self._ask(attempt, deadline)

    def _ask(self, attempt: Callable[[Broker, float], T], deadline: float | None) -> T:
        return self._coordinators.run(CoordinatorType.GROUP, self._group, attempt, deadline=deadline)

    def _check(self, error_code: int, what: str) -> None:
        if error_code:
            raise about(error_code, f"group {self._group}, {what}")
