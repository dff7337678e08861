"""Turns the nodes of a cluster into the registry of the one stopped broker that has all of it, and removes them."""

from __future__ import annotations

import random
from collections.abc import Mapping

from broker.metadata.model import ClusterState
from broker.metadata.tree.session import Session
from broker.metadata.znodes import configs, move, paths
from broker.metadata.znodes.move import Move
from broker.migration.nodes import (
    CLUSTER_WIDE,
    OF_CONTROLLERS,
    ORDERS,
    carry_out,
    cluster_id,
    contents,
    descendants,
    present_move,
    read_cluster,
    registered,
    remove,
)
from broker.migration.stopped import RefusedError, StoppedBroker
from broker.migration.tree import content_left, refusals_to_leave, registry, some, summary
from broker.zookeeper.interface import Check, Create, Delete, MultiError, SetData, ensure


class Leave:
    """A broker that leaves. Make it with `prepare`, which changes nothing.

    Args:
        broker: the broker.
        session: the session with ZooKeeper.
        state: the registry that it gets; None if it has one already.
        is_begun: whether there was an earlier attempt.
        left_out: configurations of other brokers, and credentials of users.
    """

    def __init__(
        self,
        broker: StoppedBroker,
        session: Session,
        state: ClusterState | None,
        *,
        is_begun: bool,
        left_out: list[str],
    ) -> None:
        self._broker = broker
        self._session = session
        self._state = state
        self._is_begun = is_begun
        self._left_out = left_out

    @classmethod
    async def prepare(cls, broker: StoppedBroker, session: Session, chance: random.Random) -> Leave:
        """Look whether the broker can leave.

        Raises:
            MetadataError: a node cannot be read.
            RefusedError: it cannot leave.
        """
        zookeeper = session.zookeeper
        begun = await present_move(zookeeper)
        there = await cluster_id(zookeeper)
        own = broker.registry().cluster_id if broker.has_registry else broker.cluster_id
        if broker.has_registry and begun is None:
            raise RefusedError(f"broker {broker.broker_id} is a cluster of its own already")
        if there is None or there != own:
            raise RefusedError(
                f"the log directories belong to {f'the cluster {own}' if own else 'no cluster'}, and ZooKeeper has "
                f"{f'the cluster {there}' if there else 'none'}: check zookeeper.connect and log.dirs"
            )
        if begun not in (None, Move(broker.broker_id, there)):
            raise RefusedError(
                f"{begun} is being moved there; finish that first: run its kafkalog server join, or leave, again"
            )
        await cls._check_alone(session)
        if broker.has_registry:
            return cls(broker, session, None, is_begun=True, left_out=[])
        found = await read_cluster(session, there)
        problems = refusals_to_leave(found, broker.broker_id, broker.held())
        if problems:
            raise RefusedError("; ".join(problems))
        state = registry(found, broker.broker_id, chance)
        left_out = _left_out(found.contents, broker.broker_id)
        return cls(broker, session, state, is_begun=begun is not None, left_out=left_out)

    def lines(self) -> list[str]:
        """Return in words what is moved."""
        if self._state is None:
            return ["  the registry is written already; the nodes in ZooKeeper are to be removed"]
        others = [f"  not taken along: {some(self._left_out)}"] if self._left_out else []
        return [*summary(self._state), *others, "  the cluster's nodes are removed from ZooKeeper"]

    async def carry_out(self) -> None:
        """Make the broker a cluster of its own.

        Raises:
            RefusedError: another broker has registered meanwhile. Nothing was changed.
            OSError: the registry cannot be written. Run it again.
            ZooKeeperError: ZooKeeper refuses, or the connection was lost. Run it again.
        """
        if self._state is not None:
            if not self._is_begun:
                await self._begin(self._state.cluster_id)
            self._broker.write_registry(self._state)
        await self._remove_nodes()

    # Inside

    @staticmethod
    async def _check_alone(session: Session) -> None:
        alive = await registered(session.zookeeper)
        if alive:
            raise RefusedError(
                f"the brokers {', '.join(map(str, alive))} are registered in ZooKeeper: stop all brokers first. "
                "One that was killed is registered until its session has expired (zookeeper.session.timeout.ms)"
            )

    async def _begin(self, found_id: str) -> None:
        """Say that the cluster is being moved; after that no broker of ours starts."""
        zookeeper = self._session.zookeeper
        await ensure(zookeeper, paths.MOVE.rpartition("/")[0])
        present = await zookeeper.get(paths.CLUSTER_ID)
        version = 0 if present is None else present.stat.version
        mark = move.encode(Move(self._broker.broker_id, found_id))
        try:
            await zookeeper.multi([Check(paths.CLUSTER_ID, version), Create(paths.MOVE, mark)])
        except MultiError as error:
            raise RefusedError("somebody else changes the cluster in ZooKeeper; try again") from error
        try:
            await self._check_alone(self._session)
        except RefusedError:
            await zookeeper.delete(paths.MOVE)
            raise

    async def _remove_nodes(self) -> None:
        """Remove the nodes of the cluster; its id, by which an attempt is recognized, comes last."""
        zookeeper = self._session.zookeeper
        kept: dict[str, bytes] = {}
        for name, content in (await contents(self._session)).items():
            left = content_left(name, content)
            if left:
                kept[f"{paths.CONFIGS}/{name}"] = configs.encode(left)
        await carry_out(zookeeper, [SetData(path, data) for path, data in kept.items()])
        unwanted = []
        for parent in (*CLUSTER_WIDE, *OF_CONTROLLERS, paths.DELETE_TOPICS):
            unwanted += await descendants(zookeeper, parent)
        for path in (*ORDERS, paths.CONTROLLER_EPOCH):
            if await zookeeper.get(path) is not None:
                unwanted.append(path)
        await remove(zookeeper, [path for path in unwanted if not _is_above(path, kept)])
        await zookeeper.multi([Delete(paths.CLUSTER_ID), Delete(paths.MOVE)])


def _is_above(path: str, kept: Mapping[str, bytes]) -> bool:
    """Return whether a node, or one below it, is kept."""
    return any(each == path or each.startswith(f"{path}/") for each in kept)


def _left_out(found: Mapping[str, Mapping[str, str]], broker_id: int) -> list[str]:
    taken = ("brokers/<default>", f"brokers/{broker_id}")
    brokers = [name for name, content in found.items() if name.startswith("brokers/") and content and name not in taken]
    users = [name for name, content in found.items() if content_left(name, content)]
    return [
        *(f"the configuration of broker {name.partition('/')[2]}" for name in brokers),
        *(f"credentials in /config/{name}, which stay there" for name in users),
    ]
