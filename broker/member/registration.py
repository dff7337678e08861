"""The node by which the cluster knows that this broker is alive, and by whose age it knows this life of the broker.

The node goes with the session. When it is gone, be it that the session has expired or that somebody deleted it, the
cluster takes this broker for dead: the broker gives up its roles before it registers again. One that is cut off from
ZooKeeper takes the node for gone when the session may have expired (`lease`). Apache Kafka's brokers do not watch their
nodes, and go on until the controller of the new registration tells them.

Each registration is a new node: for the controller this is another life of the broker, which gets all its roles anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from broker.config.definition import ConfigError
from broker.member.lease import Lease
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import brokers, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.zookeeper.interface import (
    ConnectionLossError,
    Create,
    MultiError,
    Node,
    NodeExistsError,
    SessionExpiredError,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""The pause after an attempt that failed."""
_LOST = (ConnectionLossError, SessionExpiredError)


class Registration:
    """The registration of this broker in ZooKeeper. Used on the event loop's thread only.

    Args:
        zookeeper: the session.
        loop: the event loop.
        broker: how the broker is registered; the epoch is filled in here.
        encode: returns the data of the node.
        on_gone: called when the cluster may have taken this broker for dead.
        on_registered: called when it is registered, the first time and again.
        patience_s: how long a start waits for ZooKeeper.
        has_lease: whether the broker takes its node for gone when the session may have expired.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        loop: asyncio.AbstractEventLoop,
        broker: BrokerRegistration,
        encode: Callable[[], bytes],
        on_gone: Callable[[], None],
        on_registered: Callable[[], None],
        patience_s: float,
        *,
        has_lease: bool,
    ) -> None:
        self._zookeeper = zookeeper
        self._loop = loop
        self._broker = broker
        self._encode = encode
        self._on_gone = on_gone
        self._on_registered = on_registered
        self._patience_s = patience_s
        self._path = paths.broker_id(broker.broker_id)
        self._lease = Lease(zookeeper, loop, self._path, self._lease_ended) if has_lease else None
        self._sessions: set[int] = set()
        """The sessions of this process."""
        self._changed = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._was_registered = False
        self._has_warned = False
        self.epoch = -1

    @property
    def broker(self) -> BrokerRegistration:
        """The registration of this broker, with its present epoch."""
        return replace(self._broker, epoch=self.epoch)

    @property
    def is_lapsed(self) -> bool:
        """Return whether the session may have expired, by the clock; False without a lease."""
        return self._lease is not None and self._lease.is_over

    async def start(self) -> None:
        """Register, and keep the registration from now on.

        Raises:
            ConfigError: another broker has this id, or one of these addresses; or ZooKeeper does not answer.
            ZooKeeperError: ZooKeeper refuses.
        """
        self._zookeeper.listen(self._session_changed)
        try:
            async with asyncio.timeout(self._patience_s):
                while not await self._begin():
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise ConfigError(
                f"zookeeper.connect: broker {self._broker.broker_id} could not be registered in {self._patience_s:g} s"
            ) from None
        self._keeping = self._loop.create_task(self._keep())
        self._changed.set()
        if self._lease is not None:
            self._lease.begin()

    async def stop(self) -> None:
        """Stop keeping it; it ends with the session."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._lease is not None:
            await self._lease.stop()

    # Inside

    async def _begin(self) -> bool:
        """Try to register for the first time; return whether it succeeded."""
        try:
            await self._check_addresses()
        except _LOST as error:
            self._warn(error)
            return False
        return await self._register()

    def _warn(self, error: Exception) -> None:
        if not self._was_registered and not self._has_warned:
            self._has_warned = True
            logger.warning("broker %d is not registered yet: %r. Trying again", self._broker.broker_id, error)

    async def _check_addresses(self) -> None:
        """Refuse addresses that another broker is registered with: clients would take the one for the other."""
        own = {(each.host, each.port) for each in self._broker.endpoints}
        for name in await self._zookeeper.children(paths.BROKER_IDS):
            node = await self._zookeeper.get(f"{paths.BROKER_IDS}/{name}") if name.isdigit() else None
            if node is None or int(name) == self._broker.broker_id or not node.data:
                continue
            try:
                other = brokers.decode(int(name), node.data, node.stat.created)
            except ZnodeError as error:
                logger.warning("%s", error)
                continue
            taken = own & {(each.host, each.port) for each in other.endpoints}
            if taken:
                shown = ", ".join(f"{host}:{port}" for host, port in sorted(taken))
                raise ConfigError(f"advertised.listeners: broker {name} of this cluster is registered with {shown}")

    async def _register(self) -> bool:
        """Try to register; return whether it succeeded.

        It does not where the connection is lost, or where an earlier node has to be deleted first.
        """
        self._sessions.add(self._zookeeper.session_id)
        sent_at = self._loop.time()
        try:
            results = await self._zookeeper.multi(
                [Create(self._path, is_ephemeral=True), SetData(self._path, self._encode(), 0)]
            )
        except _LOST as error:
            self._warn(error)
            return False
        except MultiError as error:
            if not isinstance(error.reason, NodeExistsError):
                raise error.reason from error
            await self._settle_conflict()
            return False
        stat = results[1]
        assert isinstance(stat, Stat)
        if self._lease is not None:
            self._lease.renew(sent_at)
        self._registered(stat)
        return True

    def _registered(self, stat: Stat) -> None:
        self.epoch = stat.created
        self._was_registered = True
        logger.info("broker %d is registered with epoch %d", self._broker.broker_id, self.epoch)
        self._on_registered()

    async def _settle_conflict(self) -> None:
        """Delete the node that another registration has made, if that was one of this broker.

        Raises:
            ConfigError: it is that of another broker.
        """
        try:
            node = await self._zookeeper.get(self._path)
            if node is None:
                return
            if node.stat.owner in self._sessions or self._is_predecessor(node):
                # A node of an earlier session would go by itself when that session expires (ZOOKEEPER-2985). A node of
                # this session comes from an attempt whose answer was lost, or from a life whose lease has ended. In
                # both cases this broker does not have the roles that the controller sent for the node.
                await self._zookeeper.delete(self._path, node.stat.version)
                return
        except _LOST:
            return
        except ZooKeeperError as error:
            logger.info("the registration of an earlier session cannot be removed yet: %r", error)
            return
        raise ConfigError(
            f"Another broker is registered as {self._broker.broker_id} in this cluster: each broker needs a broker.id "
            "of its own"
        )

    def _is_predecessor(self, node: Node) -> bool:
        """Return whether an ended process left this registration, because its addresses are now those of this broker.

        Only at the start: one that was registered before may have been replaced, and must not fight for the node.
        """
        if self._was_registered:
            return False
        with contextlib.suppress(ZnodeError):
            found = brokers.decode(self._broker.broker_id, node.data, node.stat.created)
            own = {(each.host, each.port) for each in self._broker.endpoints}
            return own == {(each.host, each.port) for each in found.endpoints}
        return False

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._gone("its session with ZooKeeper has expired")
        elif state is SessionState.CONNECTED:
            # The watch is gone.
            self._changed.set()

    def _lease_ended(self) -> None:
        seconds = self._zookeeper.session_timeout
        self._gone(f"ZooKeeper has not answered for {seconds:g} s, so its session may have expired")

    def _gone(self, why: str) -> None:
        if self.epoch < 0:
            return
        logger.warning("broker %d is no longer registered: %s", self._broker.broker_id, why)
        self.epoch = -1
        self._on_gone()
        self._changed.set()

    def _told(self, event: WatchEvent) -> None:
        self._changed.set()

    async def _keep(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except _LOST:
                # There is another look when the connection is back.
                self._loop.call_later(RETRY_S, self._changed.set)
            except (ZooKeeperError, ConfigError) as error:
                logger.error("broker %d cannot be registered: %s. Trying again", self._broker.broker_id, error)
                self._loop.call_later(RETRY_S, self._changed.set)
            except Exception:
                logger.exception("broker %d cannot be registered. Trying again", self._broker.broker_id)
                self._loop.call_later(RETRY_S, self._changed.set)

    async def _look(self) -> None:
        """Set the watch, and register again if the node is gone."""
        node = await self._zookeeper.get(self._path, self._told)
        if node is not None and self.epoch == node.stat.created:
            return
        self._gone("its node in ZooKeeper was deleted")
        if not await self._register():
            self._loop.call_later(RETRY_S, self._changed.set)
        else:
            self._changed.set()
