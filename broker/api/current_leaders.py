"""Name the leaders of partitions that this broker does not lead, and their addresses, in a response (KIP-951).

Clients that understand it go there at once, without asking for metadata first.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from broker.api.context import Request
from broker.metadata.model import NO_LEADER
from kafkalog.protocol.errors import ErrorCode


class LeaderIdAndEpoch(Protocol):
    """The fields of a partition's response."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(Protocol):
    """The address of a broker, as Produce and Fetch each declare it."""

    node_id: int

    def __init__(self, *, node_id: int, host: str, port: int, rack: str | None) -> None: ...


_OF_LEADERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Node = TypeVar("Node", bound=NodeEndpoint)


class CurrentLeaders(Generic[Node]):
    """The leaders that one response names.

    Args:
        request: what is answered.
        since: the first version whose responses can name leaders.
        node: the class of the response's addresses.

    Attributes:
        nodes: the addresses of the leaders that were named, each once.
    """

    __slots__ = ("_node", "_request", "_since", "nodes")

    def __init__(self, request: Request, since: int, node: type[Node]) -> None:
        self._request = request
        self._since = since
        self._node = node
        self.nodes: list[Node] = []

    def name(self, code: ErrorCode, topic: str, index: int, entry: LeaderIdAndEpoch) -> None:
        """Set the leader of a partition in its entry of the response, if the error says that a client needs it.

        The leader is that of the newest epoch of which this broker knows, by its role or from the metadata of the
        cluster. It is not named if it may be dead, or has no listener of the name by which the client came.
        """
        request = self._request
        if request.version < self._since or code not in _OF_LEADERS:
            return
        broker = request.broker
        partition, state = broker.replicas.get(topic, index), broker.metadata.image.partition(topic, index)
        leader, epoch = (NO_LEADER, -1) if state is None else (state.leader, state.leader_epoch)
        if partition is not None and partition.leader_epoch >= epoch:
            leader, epoch = partition.leader, partition.leader_epoch
        if leader == NO_LEADER or broker.metadata.doubts(leader):
            return
        if leader == broker.broker_id and code is not ErrorCode.FENCED_LEADER_EPOCH:
            # It cannot lead at present. Another one may be elected.
            return
        endpoint = broker.metadata.endpoint(leader, request.connection.endpoint.name)
        if endpoint is None:
            return
        entry.leader_id, entry.leader_epoch = leader, epoch
        if all(node.node_id != leader for node in self.nodes):
            rack = broker.metadata.image.brokers[leader].rack
            self.nodes.append(self._node(node_id=leader, host=endpoint.host, port=endpoint.port, rack=rack))
