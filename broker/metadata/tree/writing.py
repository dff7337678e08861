"""Writes configurations, quotas, SCRAM credentials, and blocks of producer ids.

A configuration is written on condition that it has not changed since it was read, and that the controller is still the
same, as Apache Kafka 3.9 does. The notice for the other brokers is a part of the same transaction.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from functools import partial

from broker.metadata.tree.entities import ConfigOperation, content_after
from broker.metadata.tree.reading import ABSENT, ConfigNode, read_nodes
from broker.metadata.tree.session import LOST, OVERHEAD, Session, each_of
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.cluster import ProducerIdBlock, decode_block, encode_block
from broker.metadata.znodes.notices import encode_config_change, mark_of
from broker.zookeeper.interface import (
    BadVersionError,
    Check,
    Create,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)

Contents = Mapping[str, dict[str, str]]
"""Contents by the name of their node below `/config`."""
_CONTROLLER_PAUSE_S = 0.1
_CHANGED = (BadVersionError, NodeExistsError, NoNodeError)
MOST_IDS = 2**63 - 1


class ConfigWriter:
    """Writes configurations, quotas, SCRAM credentials and blocks of producer ids.

    Args:
        session: the session with ZooKeeper.
        name: differs from the names of all other writers.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._name = name
        self._marked = 0
        """The number of writes that have a mark."""

    async def write(self, operations: Mapping[str, ConfigOperation], known: Contents) -> bool:
        """Write operations, given by the names of their nodes (`name_of`).

        Args:
            operations: what to write.
            known: the contents that it was decided on; an absent one counts as empty.

        Returns:
            Whether they are written. They are not if one of the nodes has another content.

        Raises:
            PolicyViolationError: a node would be too large for ZooKeeper.
            OSError: there is no connection, or no controller, for too long.
        """
        present = await read_nodes(self._session, operations)
        contents = {name: node.content for name, node in present.items()}
        if any(content != known.get(name, {}) for name, content in contents.items()):
            return False
        after = {name: content_after(each, contents[name]) for name, each in operations.items()}
        changed = {name: content for name, content in after.items() if content != contents[name]}
        for some in self._pieces(changed):
            if not await self._write(some, present):
                return False
        return True

    def _pieces(self, contents: Contents) -> list[dict[str, bytes]]:
        """Return the data of nodes, in parts that ZooKeeper takes in one request each."""
        pieces: list[dict[str, bytes]] = []
        room = 0
        for name, content in contents.items():
            data = configs.encode(content)
            self._session.check_size(f"{paths.CONFIGS}/{name}", data)
            size = len(data) + 2 * len(name) + OVERHEAD
            if size > room:
                pieces.append({})
                room = self._session.max_bytes - OVERHEAD
            pieces[-1][name] = data
            room -= size
        return pieces

    async def _write(self, data: Mapping[str, bytes], present: Mapping[str, ConfigNode]) -> bool:
        """Write some nodes and their notices as one; return False if one of them has another version by now."""
        end = self._session.loop.time() + self._session.patience_s
        self._marked += 1
        mark = f"{self._name}-{self._marked}"
        was_lost = False
        while True:
            check = await self._controller(end)
            writes: list[Operation] = []
            for name, each in data.items():
                path, version = f"{paths.CONFIGS}/{name}", present[name].version
                writes.append(Create(path, each) if version == ABSENT else SetData(path, each, version))
            notices: list[Operation] = [
                Create(paths.CONFIG_CHANGE_PREFIX, encode_config_change(name, mark), is_sequential=True)
                for name in data
            ]
            try:
                await self._zookeeper.multi([check, *writes, *notices])
                return True
            except MultiError as error:
                if error.index == 0:
                    # Another controller was elected meanwhile.
                    continue
                if isinstance(error.reason, NoNodeError) and error.index > len(writes):
                    await self._session.ensure(paths.CONFIG_CHANGES)
                elif isinstance(error.reason, NoNodeError) and isinstance(writes[error.index - 1], Create):
                    await self._session.ensure(writes[error.index - 1].path.rpartition("/")[0])
                elif isinstance(error.reason, _CHANGED):
                    # By another broker, or by an earlier attempt of this one.
                    return was_lost and await self._has_notice(mark)
                else:
                    raise error.reason from error
            except LOST:
                # It may have been carried out, as a whole. Another broker may have changed the same nodes since.
                was_lost = True
                await self._session.connected()
                if await self._has_notice(mark):
                    return True

    async def _has_notice(self, mark: str) -> bool:
        names = await self._session.read(partial(self._zookeeper.children, paths.CONFIG_CHANGES))

        async def read(name: str) -> str | None:
            path = f"{paths.CONFIG_CHANGES}/{name}"
            node = await self._session.read(partial(self._zookeeper.get, path))
            return None if node is None else mark_of(node.data)

        return mark in await each_of(names, read)

    async def _controller(self, end: float) -> Check:
        """Return the check that the controller is still the present one.

        Raises:
            OSError: there is none.
        """
        while True:
            node = await self._session.read(partial(self._zookeeper.get, paths.CONTROLLER))
            if node is not None:
                return Check(paths.CONTROLLER, node.stat.version)
            if self._session.loop.time() > end:
                raise OSError(
                    errno.EAGAIN, "the cluster has no controller at present: /controller is missing in ZooKeeper"
                )
            await asyncio.sleep(_CONTROLLER_PAUSE_S)


async def next_producer_id(session: Session) -> int:
    """Return the first producer id that no block has; see `decode_block` for errors."""
    node = await session.read(partial(session.zookeeper.get, paths.PRODUCER_ID_BLOCK))
    return decode_block(node.data).last + 1 if node is not None and node.data else 0


async def take_producer_ids(session: Session, broker_id: int, first: int, following: int) -> tuple[bool, int]:
    """Take the block of ids from `first` up to, but without, `following`.

    Returns:
        Whether it was taken, and the first id that no block has then. It was not if `first` is in a block already.

    Raises:
        OSError: all ids are given out, or there was no connection for too long.
        ZnodeError: the node cannot be read.
    """
    if following - 1 > MOST_IDS:
        raise OSError(errno.ENOSPC, "all producer ids are given out")
    zookeeper, path = session.zookeeper, paths.PRODUCER_ID_BLOCK
    data = encode_block(ProducerIdBlock(broker_id, first, following - 1))
    while True:
        node = await session.read(partial(zookeeper.get, path))
        if node is None:
            await session.ensure(path)
            continue
        present = decode_block(node.data).last + 1 if node.data else 0
        if present != first:
            return False, present
        try:
            await zookeeper.set(path, data, node.stat.version)
            return True, following
        except (BadVersionError, NoNodeError):
            continue
        except LOST:
            await session.connected()
            node = await session.read(partial(zookeeper.get, path))
            if node is not None and node.data == data:
                return True, following
