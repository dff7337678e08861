"""Offsets of groups in ZooKeeper (`/consumers/<group>/offsets/<topic>/<partition>`).

OffsetCommit and OffsetFetch of version 0 are about these nodes (`KafkaApis.commitOffsetsToZookeeper`). Later versions
are about the coordinator of the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from broker.metadata.tree.session import Session, each_of
from broker.metadata.znodes import paths
from broker.zookeeper.interface import NodeExistsError, NoNodeError, ZooKeeper, ZooKeeperError
from kafkalog.protocol.errors import InvalidGroupIdError, RequestTimedOutError

logger = logging.getLogger(__name__)

Partition = tuple[str, int]
MAX_OFFSET = (1 << 63) - 1


class GroupOffsetNodes:
    """Reads and writes the offsets of groups. Used on the event loop's thread only.

    Args:
        zookeeper: the session.
        loop: the event loop.
        patience_s: how long a request waits for a connection to ZooKeeper.
    """

    def __init__(self, zookeeper: ZooKeeper, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        self._zookeeper = zookeeper
        self._session = Session(zookeeper, loop, patience_s=patience_s)

    async def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set the offsets of a group.

        Raises:
            InvalidGroupIdError: the group's name cannot be part of a path.
            RequestTimedOutError: ZooKeeper does not answer; some of the offsets may be set.
        """
        _check(group)

        async def put(item: tuple[Partition, int]) -> None:
            path, data = _path(group, item[0]), str(item[1]).encode()
            await self._session.read(lambda: self._put(path, data))

        try:
            await each_of(offsets.items(), put)
        except (OSError, ZooKeeperError) as error:
            raise _unanswered(group, error) from error

    async def fetch(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offsets of a group; partitions without one are left out, and those with a damaged one.

        Raises:
            InvalidGroupIdError: the group's name cannot be part of a path.
            RequestTimedOutError: ZooKeeper does not answer.
        """
        _check(group)

        async def get(partition: Partition) -> int | None:
            path = _path(group, partition)
            node = await self._session.read(lambda: self._zookeeper.get(path))
            return None if node is None else _parse(path, node.data)

        wanted = list(partitions)
        try:
            found = await each_of(wanted, get)
        except (OSError, ZooKeeperError) as error:
            raise _unanswered(group, error) from error
        return {partition: offset for partition, offset in zip(wanted, found, strict=True) if offset is not None}

    async def _put(self, path: str, data: bytes) -> None:
        while True:
            try:
                await self._zookeeper.set(path, data)
            except NoNodeError:
                await self._session.ensure(path.rpartition("/")[0])
                try:
                    await self._zookeeper.create(path, data)
                except (NodeExistsError, NoNodeError):
                    # Somebody else creates or deletes it at the same time.
                    continue
            return


def _check(group: str) -> None:
    if not group.isprintable() or not group or "/" in group or group in (".", ".."):
        raise InvalidGroupIdError(f"{group[:64]!r} cannot be the name of a group whose offsets are in ZooKeeper")


def _path(group: str, partition: Partition) -> str:
    return f"{paths.CONSUMERS}/{group}/offsets/{partition[0]}/{partition[1]}"


def _parse(path: str, data: bytes) -> int | None:
    text = data.decode("ascii", "replace").strip()
    if not text.isdecimal() or len(text) > 19 or int(text) > MAX_OFFSET:
        if text != "-1":
            logger.warning("%s holds no offset", path)
        return None
    return int(text)


def _unanswered(group: str, error: Exception) -> RequestTimedOutError:
    logger.warning("The offsets of group %s in ZooKeeper cannot be reached: %s", group, error)
    return RequestTimedOutError("ZooKeeper does not answer")
