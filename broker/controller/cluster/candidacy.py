"""The election of the controller, by a node that only one broker can create.

A broker creates `/controller` and increments `/controller_epoch` in one request. The others watch the node, and try
when it is gone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from broker.controller.cluster.kraft import check_controller
from broker.controller.cluster.session import Connection, lasting
from broker.metadata.model import NO_CONTROLLER
from broker.metadata.znodes import controller, paths
from broker.zookeeper.interface import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MultiError,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Watch,
    ZooKeeper,
    ZooKeeperError,
)

HAND_OVER_S = 1.0
"""The seconds that a broker which stops waits for ZooKeeper to take its resignation."""


async def elect(
    zookeeper: ZooKeeper, connection: Connection, data: bytes, watch: Watch, *, is_active: bool
) -> tuple[int, int] | int | None:
    """Try to become the controller.

    Args:
        zookeeper: The session.
        connection: The state of the session.
        data: The content of `/controller` with this broker.
        watch: The watch to set on `/controller`.
        is_active: Whether this broker has been elected and is in office.

    Returns:
        The epoch and the version of `/controller_epoch` if this broker was elected; None if it has been, and still is
        in office; else the id of the controller, or NO_CONTROLLER if that one is gone already.

    Raises:
        SessionEndedError: The session has ended.
        KraftMigrationError: A KRaft controller migrates the cluster. Its node is left alone.
        ZnodeError: A node cannot be read.
        ZooKeeperError: ZooKeeper refuses a request for another reason than that somebody else was faster.
    """
    number = connection.number

    async def present() -> Node | None:
        node = await lasting(connection, number, lambda: zookeeper.get(paths.CONTROLLER, watch))
        if node is not None:
            check_controller(node.data)
        return node

    # The epoch comes first: whatever another election does after this read changes the version.
    epoch, version = await _epoch(zookeeper, connection, number)
    found = await present()
    if found is not None:
        is_own = found.stat.owner == zookeeper.session_id
        if is_own and is_active:
            return None
        # This broker was elected in this session and has resigned since. Or a former process of this broker was
        # elected, and its session has not expired yet. No other broker has the id: this one is registered under it.
        if is_own or controller.decode(found.data) == controller.decode(data):
            await resign(zookeeper, connection, version)
            found = await present()
    if found is not None:
        return controller.decode(found.data)
    wanted: list[Operation] = [
        Create(paths.CONTROLLER, data, is_ephemeral=True),
        SetData(paths.CONTROLLER_EPOCH, controller.encode_epoch(epoch + 1), version),
    ]
    try:
        await lasting(connection, number, lambda: zookeeper.multi(wanted))
    except MultiError as error:
        _check_outrun(error)
        # The answer to a first attempt may have been lost.
        now = await present()
        if now is None:
            return NO_CONTROLLER
        now_epoch, now_version = await _epoch(zookeeper, connection, number)
        if now.stat.owner == zookeeper.session_id and now_epoch == epoch + 1:
            return now_epoch, now_version
        return controller.decode(now.data)
    return epoch + 1, version + 1


async def _epoch(zookeeper: ZooKeeper, connection: Connection, number: int) -> tuple[int, int]:
    """Return the epoch of the last election, and the version of its node, which is made if there is none."""
    while True:
        node = await lasting(connection, number, lambda: zookeeper.get(paths.CONTROLLER_EPOCH))
        if node is not None:
            return controller.decode_epoch(node.data), node.stat.version
        with suppress(NodeExistsError):
            await lasting(
                connection, number, lambda: zookeeper.create(paths.CONTROLLER_EPOCH, controller.encode_epoch(0))
            )


async def resign(zookeeper: ZooKeeper, connection: Connection, epoch_version: int) -> None:
    """Give the office up that was won with this version of `/controller_epoch`, if it is not lost already.

    Raises:
        SessionEndedError: The session has ended.
        ZooKeeperError: ZooKeeper refuses to delete the node.
    """
    try:
        await lasting(connection, connection.number, lambda: zookeeper.multi(_resignation(epoch_version)))
    except MultiError as error:
        _check_outrun(error)


async def hand_over(zookeeper: ZooKeeper, epoch_version: int) -> None:
    """Give the office up as `resign` does, but wait no longer than a moment: it ends with the session in any case."""
    with suppress(ZooKeeperError, TimeoutError):
        async with asyncio.timeout(HAND_OVER_S):
            await zookeeper.multi(_resignation(epoch_version))


def _resignation(epoch_version: int) -> list[Operation]:
    return [Check(paths.CONTROLLER_EPOCH, epoch_version), Delete(paths.CONTROLLER)]


def _check_outrun(error: MultiError) -> None:
    """Raise the reason of an error, unless it is that somebody else has changed the nodes."""
    if not isinstance(error.reason, (NodeExistsError, BadVersionError, NoNodeError)):
        raise error.reason from error
