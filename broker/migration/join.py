"""Turns the registry of a stopped lone broker into the nodes of a cluster of which it is the only member."""

from __future__ import annotations

from broker.member.identity import make_top_nodes
from broker.metadata.local import FILE_NAME
from broker.metadata.model import ClusterState
from broker.metadata.tree.acls import read_acls
from broker.metadata.tree.session import Session
from broker.metadata.znodes import cluster, move, paths
from broker.metadata.znodes.move import Move
from broker.migration.nodes import children, cluster_id, contents, make_equal, present_move, registered
from broker.migration.stopped import RefusedError, StoppedBroker
from broker.migration.tree import content_left, has_more, nodes, refusals, some, summary
from broker.zookeeper.interface import Check, Create, MultiError, Operation, ensure


class Join:
    """A broker that joins. Make it with `prepare`, which changes nothing.

    Args:
        broker: the broker.
        session: the session with ZooKeeper.
        state: the registry; None if only the last step of an earlier attempt is missing.
        is_begun: whether there was an earlier attempt.
    """

    def __init__(self, broker: StoppedBroker, session: Session, state: ClusterState | None, *, is_begun: bool) -> None:
        self._broker = broker
        self._session = session
        self._state = state
        self._is_begun = is_begun

    @classmethod
    async def prepare(cls, broker: StoppedBroker, session: Session) -> Join:
        """Look whether the broker can join.

        Raises:
            MetadataError: the registry, or a node, cannot be read.
            RefusedError: it cannot join.
        """
        zookeeper = session.zookeeper
        begun = await present_move(zookeeper)
        there = await cluster_id(zookeeper)
        if not broker.has_registry:
            if begun is not None and begun == Move(broker.broker_id, broker.cluster_id or ""):
                return cls(broker, session, None, is_begun=True)
            raise RefusedError(_nothing_to_move(broker, there))
        state = broker.registry()
        if begun not in (None, Move(broker.broker_id, state.cluster_id)):
            raise RefusedError(
                f"{begun} is being moved there; finish that first: run its kafkalog server join, or leave, again"
            )
        if there not in (None, state.cluster_id):
            raise RefusedError(
                f"ZooKeeper has the cluster {there}, and the broker is the cluster {state.cluster_id}. Name a path in "
                "zookeeper.connect below which there is none; clusters are not merged"
            )
        problems = refusals(state, broker.broker_id)
        alive = await registered(zookeeper)
        if broker.broker_id in alive:
            problems.append(f"a broker is registered as {broker.broker_id}: each broker needs a broker.id of its own")
        elif alive:
            problems.append(f"the brokers {', '.join(map(str, alive))} are registered there: stop them first")
        if begun is None:
            problems += await _foreign(session, state)
        if problems:
            raise RefusedError("; ".join(problems))
        return cls(broker, session, state, is_begun=begun is not None)

    def lines(self) -> list[str]:
        """Return in words what is moved."""
        if self._state is None:
            return ["  everything is in ZooKeeper already; only the mark of the move is to be removed"]
        again = ["  an earlier attempt is begun anew: what it has written is replaced"] if self._is_begun else []
        return [*summary(self._state), *again, f"  {FILE_NAME} is renamed in each log directory"]

    async def carry_out(self) -> None:
        """Make the broker a member.

        Raises:
            RefusedError: a cluster was made there meanwhile.
            OSError: a file cannot be changed. Run it again.
            ZooKeeperError: ZooKeeper refuses, or the connection was lost. Run it again.
        """
        zookeeper, broker, state = self._session.zookeeper, self._broker, self._state
        if state is not None:
            if not self._is_begun:
                await self._begin(state)
            await make_top_nodes(zookeeper)
            left = {name: content_left(name, found) for name, found in (await contents(self._session)).items()}
            kept = {name: content for name, content in left.items() if content}
            await make_equal(zookeeper, nodes(state, broker.broker_id, kept))
            broker.put_registry_aside(state)
        await zookeeper.delete(paths.MOVE)

    async def _begin(self, state: ClusterState) -> None:
        """Take the place, before anybody else makes a cluster there."""
        zookeeper = self._session.zookeeper
        mark = move.encode(Move(self._broker.broker_id, state.cluster_id))
        for path in (paths.MOVE, paths.CLUSTER_ID):
            await ensure(zookeeper, path.rpartition("/")[0])
        present = await zookeeper.get(paths.CLUSTER_ID)
        claim: Operation = Create(paths.CLUSTER_ID, cluster.encode_id(state.cluster_id))
        if present is not None and cluster.decode_id(present.data) == state.cluster_id:
            claim = Check(paths.CLUSTER_ID, present.stat.version)
        try:
            await zookeeper.multi([claim, Create(paths.MOVE, mark)])
        except MultiError as error:
            raise RefusedError("somebody else has begun to use ZooKeeper meanwhile; try again") from error


def _nothing_to_move(broker: StoppedBroker, there: str | None) -> str:
    if there is not None and broker.cluster_id == there:
        return f"broker {broker.broker_id} is a member of the cluster {there} already"
    return (
        f"{FILE_NAME} is in none of the log directories: the broker has no topics of its own. A new broker becomes a "
        "member when it is started with zookeeper.connect; one with the logs of Apache Kafka is started once without it"
    )


async def _foreign(session: Session, state: ClusterState) -> list[str]:
    """Return what is there of another cluster."""
    topics = set(await children(session.zookeeper, paths.TOPICS))
    if topics:
        shared = topics & state.topics.keys()
        same = f", among them {some(shared)}, which the broker has, too" if shared else ""
        remedy = "Name a path in zookeeper.connect below which there are none"
        return [f"ZooKeeper has topics already ({some(topics)}{same}). {remedy}"]
    if await read_acls(session):
        # They may be about other topics of the same names.
        return ["ZooKeeper has ACLs already (/kafka-acl or /kafka-acl-extended): delete them"]
    found = [name for name, content in (await contents(session)).items() if has_more(name, content)]
    return [f"ZooKeeper has configurations already (/config/{some(found)}): delete them"] if found else []
