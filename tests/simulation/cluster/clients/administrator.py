"""An administrator: makes and deletes topics, moves replicas, elects leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Request
from tests.simulation.cluster.clients.client import FAILURES, PAUSE_S, Client, check
from tests.simulation.cluster.clients.history import PartitionKey
from tests.support.wire import batch, produce_request

SHORT_LIVED = "short"
TIMEOUT_MS = 5_000
PREFERRED = 0


class Administrator:
    """Does one thing after the other.

    Args:
        partitions: what is reassigned.
        factor: the number of replicas.
        deletable: chooses a partition, and an offset before which its records are deleted; None for no deletion.
        directories: the log directories of brokers between which logs are moved; none for no moves.
        adds_partitions: whether partitions are added to the short-lived topics.

    Attributes:
        reassigned, deleted, moved: how often replicas were reassigned, records deleted, and logs moved.
    """

    def __init__(
        self,
        client: Client,
        partitions: list[PartitionKey],
        factor: int,
        ended: asyncio.Event,
        deletable: Callable[[], tuple[PartitionKey, int]] | None,
        directories: Mapping[int, Sequence[Path]],
        *,
        adds_partitions: bool,
    ) -> None:
        self.client = client
        self._partitions = partitions
        self._factor = factor
        self._ended = ended
        self._deletable = deletable
        self._directories = directories
        self._adds_partitions = adds_partitions
        self.reassigned = self.deleted = self.moved = 0

    async def work(self) -> None:
        """Administer until the end."""
        deeds = [self._create, self._create, self._delete, self._reassign, self._reassign, self._cancel, self._elect]
        if self._deletable is not None:
            deeds += [self._delete_records] * 3
        if self._directories:
            deeds += [self._move] * 3
        if self._adds_partitions:
            deeds += [self._add_partitions]
        while not self._ended.is_set():
            await self.client.pause(15 * PAUSE_S)
            try:
                await self.client.chance.choice(deeds)()
            except FAILURES:
                continue

    async def create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        """Make a topic, however often that has to be tried."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=self._factor, configs=configs)
        while True:
            try:
                answer = await self._ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)
                if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
            except FAILURES:
                pass
            await self.client.pause()

    async def _ask_controller(self, request: Request, version: int) -> Any:
        answer = await self.client.ask_any(MetadataRequest(topics=[]), 12)
        found = answer.controller_id if answer.controller_id in self.client.brokers else None
        return await self.client.ask(found or self.client.chance.choice(self.client.brokers), request, version)

    def _short_lived(self) -> str:
        return f"{SHORT_LIVED}{self.client.chance.randint(1, 2)}"

    async def _create(self) -> None:
        name = self._short_lived()
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=min(2, self._factor))
        answer = await self._ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)
        check(answer.topics[0].error_code)
        leader, _ = await self.client.leader((name, 0))
        await self.client.ask(leader, produce_request(name, {0: batch([b"short:lived"])}, acks=1), 9)

    async def _delete(self) -> None:
        name = self._short_lived()
        for index in range(2):
            self.client.forget_leader((name, index))
        await self._ask_controller(DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS), 5)

    async def _add_partitions(self) -> None:
        topic = CreatePartitionsTopic(
            name=self._short_lived(), count=self.client.chance.randint(2, 4), assignments=None
        )
        await self._ask_controller(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 3)

    async def _move(self) -> None:
        """Move the log of a partition to a directory of the broker that may have it already."""
        name, index = self.client.chance.choice(self._partitions)
        broker = self.client.chance.choice(list(self._directories))
        path = str(self.client.chance.choice(self._directories[broker]))
        topic = AlterReplicaLogDirTopic(name=name, partitions=[index])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        answer = await self.client.ask(broker, request, 2)
        check(answer.results[0].partitions[0].error_code)
        self.moved += 1

    async def _delete_records(self) -> None:
        assert self._deletable is not None
        key, offset = self._deletable()
        partition = DeleteRecordsPartition(partition_index=key[1], offset=offset)
        topic = DeleteRecordsTopic(name=key[0], partitions=[partition])
        self.client.forget_leader(key)
        leader, _ = await self.client.leader(key)
        answer = await self.client.ask(leader, DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 2)
        check(answer.topics[0].partitions[0].error_code)
        self.deleted += 1

    async def _reassign(self) -> None:
        name, index = self.client.chance.choice(self._partitions)
        replicas = self.client.chance.sample(list(self.client.brokers), self._factor)
        await self._alter(name, index, replicas)

    async def _cancel(self) -> None:
        name, index = self.client.chance.choice(self._partitions)
        await self._alter(name, index, None)

    async def _alter(self, name: str, index: int, replicas: list[int] | None) -> None:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name=name, partitions=[partition])]
        )
        answer = await self._ask_controller(request, 0)
        check(answer.error_code)
        check(answer.responses[0].partitions[0].error_code)
        self.reassigned += 1

    async def _elect(self) -> None:
        name, index = self.client.chance.choice(self._partitions)
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[TopicPartitions(topic=name, partitions=[index])],
            timeout_ms=TIMEOUT_MS,
        )
        await self._ask_controller(request, 2)
