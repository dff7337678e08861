"""Change an ISR in ZooKeeper, as brokers before 2.7 do (Kafka: `ZkAlterPartitionManager`).

The leader writes the partition's state on condition of its version. Some seconds later it makes one node with the names
of all partitions that have changed, by which the controller learns of it, and tells the other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode, decode_state, encode_state
from broker.replica.isr.keeper import Answer, IsrDecision, IsrProposal
from broker.runtime import Runtime
from broker.zookeeper.interface import BadVersionError, NoNodeError, ZooKeeper, ZooKeeperError
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

CHECK_S = 2.5
"""The shortest interval between two notices of changed partitions."""
LINGER_S = 5.0
"""A notice is written when no partition has changed for this long."""
LONGEST_S = 60.0
"""A notice is written after this time, even if partitions still change."""
RETRY_S = 0.5

PartitionKey = tuple[str, int]


async def read_state(zookeeper: ZooKeeper, proposal: IsrProposal) -> IsrDecision | None:
    """Return the state of a partition in ZooKeeper. If it cannot be read, return None after a pause."""
    found = await _read(zookeeper, proposal)
    if found is None:
        await asyncio.sleep(RETRY_S)
        return None
    return _decision(found)


async def _read(zookeeper: ZooKeeper, proposal: IsrProposal) -> StateNode | None:
    try:
        node = await zookeeper.get(paths.partition_state(*proposal.key))
        return None if node is None else decode_state(*proposal.key, node.data, node.stat.version)
    except (ZooKeeperError, ZnodeError) as error:
        logger.warning("The state of %s-%d cannot be read: %r", *proposal.key, error)
        return None


def _decision(node: StateNode) -> IsrDecision:
    return IsrDecision(node.leader, node.leader_epoch, node.partition_epoch, node.isr)


class IsrNodes:
    """The `IsrStore` that writes the ISR into ZooKeeper. Used on the event loop's thread only.

    Args:
        runtime: the loop.
        broker_id: the id of this broker.
        zookeeper: the session.
    """

    def __init__(self, runtime: Runtime, broker_id: int, zookeeper: ZooKeeper) -> None:
        self._loop = runtime.loop
        self._broker_id = broker_id
        self._zookeeper = zookeeper
        self._changed: dict[PartitionKey, None] = {}
        """The partitions whose names are not written yet."""
        self._changed_at = 0.0
        self._told_at = self._loop.time()
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: asyncio.Task[None] | None = None

    def submit(self, proposal: IsrProposal, answer: Answer, is_open: Callable[[], bool]) -> None:
        """See `IsrStore.submit`."""

        async def write() -> None:
            answer(await self._write(proposal, is_open))

        self._run(write())

    def look(self, proposal: IsrProposal, answer: Callable[[IsrDecision | None], None]) -> None:
        """See `IsrStore.look`."""

        async def read() -> None:
            answer(await read_state(self._zookeeper, proposal))

        self._run(read())

    async def close(self) -> None:
        """Stop; names that are not written yet are written now."""
        tasks = [*self._tasks, *([self._telling] if self._telling is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._changed:
            await self._tell()

    # Inside

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, proposal: IsrProposal, is_open: Callable[[], bool]) -> IsrDecision | ErrorCode:
        present = await _read(self._zookeeper, proposal)
        if present is None:
            await asyncio.sleep(RETRY_S)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if not is_open():
            # Nobody waits for the answer.
            return ErrorCode.OPERATION_NOT_ATTEMPTED
        wanted = StateNode(
            leader=self._broker_id,
            leader_epoch=proposal.leader_epoch,
            isr=proposal.isr,
            # The epoch of the controller that elected this leader.
            controller_epoch=present.controller_epoch,
            partition_epoch=proposal.partition_epoch,
            recovery=LeaderRecoveryState.RECOVERED,
        )
        path = paths.partition_state(*proposal.key)
        try:
            stat = await self._zookeeper.set(path, encode_state(wanted), proposal.partition_epoch)
        except (BadVersionError, NoNodeError):
            # The answer to an earlier attempt may have been lost: then the node has what was to be written.
            found = await _read(self._zookeeper, proposal)
            if found is None or not _is_same(found, wanted):
                return ErrorCode.INVALID_UPDATE_VERSION
            version = found.partition_epoch
        except ZooKeeperError as error:
            logger.warning("The ISR of %s-%d cannot be written: %r", *proposal.key, error)
            await asyncio.sleep(RETRY_S)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            version = stat.version
        self._note(proposal.key)
        return IsrDecision(self._broker_id, proposal.leader_epoch, version, proposal.isr)

    def _note(self, key: PartitionKey) -> None:
        self._changed[key] = None
        self._changed_at = self._loop.time()
        if self._telling is None or self._telling.done():
            self._telling = self._loop.create_task(self._tell_later())

    async def _tell_later(self) -> None:
        while self._changed:
            await asyncio.sleep(CHECK_S)
            now = self._loop.time()
            if now - self._changed_at > LINGER_S or now - self._told_at > LONGEST_S:
                await self._tell()

    async def _tell(self) -> None:
        told, self._changed = self._changed, {}
        try:
            data = notices.encode_isr_change(told)
            await self._zookeeper.create(paths.ISR_CHANGE_PREFIX, data, is_sequential=True)
        except ZooKeeperError as error:
            logger.warning("The controller cannot be told of changed ISRs: %r", error)
            self._changed = {**told, **self._changed}
            return
        self._told_at = self._loop.time()


def _is_same(found: StateNode, wanted: StateNode) -> bool:
    return (found.leader, found.leader_epoch, found.isr, found.controller_epoch) == (
        wanted.leader,
        wanted.leader_epoch,
        wanted.isr,
        wanted.controller_epoch,
    )
