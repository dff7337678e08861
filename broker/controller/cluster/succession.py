"""Notices that the controller's process has died, and does not wait for its session with ZooKeeper to expire.

A broker that is not the controller keeps a connection to the controller. Where the connection breaks and nothing
listens at the controller's address any more, it deletes `/controller` and the registration of that broker, in one
request. Then all brokers stand for election. A connection that only times out is no evidence.

It does so only for a broker that watches its own registration. Should that one live nevertheless, it stops leading when
its registration is gone, and gives up the office when `/controller` is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from broker.controller.cluster.channels import CONNECTED_S, REFUSALS, Connect, until_next_look
from broker.metadata.model import NO_CONTROLLER, BrokerRegistration
from broker.metadata.znodes import brokers, controller, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError, LinkRefusedError
from broker.zookeeper.interface import Check, Delete, MultiError, Operation, ZooKeeper, ZooKeeperError

logger = logging.getLogger(__name__)

PURPOSE = "succession"


class Succession:
    """Watches the process of the controller, while that is another broker.

    Args:
        own_id: The id of this broker.
        zookeeper: The session.
        connect: Makes the link.
        controller_id: Returns the controller that this broker knows of.
        is_candidate: Returns whether this broker stands for election, and is not the controller itself.
        timeout_s: How long to wait for a connection.
    """

    def __init__(
        self,
        own_id: int,
        zookeeper: ZooKeeper,
        connect: Connect,
        controller_id: Callable[[], int],
        is_candidate: Callable[[], bool],
        timeout_s: float,
    ) -> None:
        self._own_id = own_id
        self._zookeeper = zookeeper
        self._connect = connect
        self._controller_id = controller_id
        self._is_candidate = is_candidate
        self._timeout_s = timeout_s
        self._watched: BrokerRegistration | None = None
        self._link: Link | None = None
        self._lost = asyncio.Event()
        self._refusals = 0

    async def run(self) -> None:
        """Watch until the task is cancelled."""
        try:
            while True:
                self._lost.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._lost.wait()
                try:
                    if self._is_candidate() and self._controller_id() not in (self._own_id, NO_CONTROLLER):
                        await self._look()
                    else:
                        await self._forget()
                except (ZooKeeperError, ZnodeError) as error:
                    logger.debug("the process of the controller is not watched at present: %r", error)
                    await self._forget()
                except Exception:
                    # Whatever it is: the controller may die later, and somebody must notice.
                    logger.exception("the process of the controller cannot be watched")
                    await self._forget()
        finally:
            await self._forget()

    def _pause(self) -> float:
        is_controller = self._controller_id() == self._own_id
        return CONNECTED_S if is_controller else until_next_look(self._link, self._refusals)

    async def _look(self) -> None:
        """See whether the controller's process still listens."""
        wanted = self._controller_id()
        if self._watched is None or self._watched.broker_id != wanted:
            await self._forget()
            self._watched = await self._registration(wanted)
        if self._watched is None or not self._watched.watches_itself:
            return
        try:
            if self._link is None:
                self._link = self._connect(self._watched, PURPOSE)
                self._link.on_lost = self._lost.set
            if not self._link.connected:
                await self._link.connect(timeout=self._timeout_s)
            self._refusals = 0
        except LinkRefusedError:
            self._refusals += 1
            if self._refusals >= REFUSALS:
                await self._depose(self._watched)
                await self._forget()
        except LinkError:
            # It may be slow, or the network. It may also listen somewhere else now.
            await self._forget()

    async def _registration(self, broker_id: int) -> BrokerRegistration | None:
        found = await self._zookeeper.get(paths.broker_id(broker_id))
        return None if found is None else brokers.decode(broker_id, found.data, found.stat.created)

    async def _depose(self, dead: BrokerRegistration) -> None:
        """Delete the node of the controller and its registration, unless there has been an election since."""
        # In this order: a later election changes the version that was read first.
        epoch = await self._zookeeper.get(paths.CONTROLLER_EPOCH)
        office = await self._zookeeper.get(paths.CONTROLLER)
        registration = await self._zookeeper.get(paths.broker_id(dead.broker_id))
        if epoch is None or office is None or controller.decode(office.data) != dead.broker_id:
            return
        wanted: list[Operation] = [
            Check(paths.CONTROLLER_EPOCH, epoch.stat.version),
            Delete(paths.CONTROLLER, office.stat.version),
        ]
        if registration is not None:
            if registration.stat.created != dead.epoch:
                # It has registered anew, at another address perhaps.
                return
            wanted.append(Delete(paths.broker_id(dead.broker_id), registration.stat.version))
        with suppress(MultiError):
            await self._zookeeper.multi(wanted)
            logger.warning(
                "broker %d, the controller, is taken for dead; nothing listened at %s, so that its registration was "
                "deleted",
                dead.broker_id,
                " or ".join(map(str, dead.endpoints)),
            )

    async def _forget(self) -> None:
        link, self._link, self._watched, self._refusals = self._link, None, None, 0
        if link is not None:
            await link.close()
