"""A registry with a version for each node, as in ZooKeeper: other brokers may change it between read and write.

The contract of `MetadataStore` is tested with it and with the store of a lone broker. So the interface stays one that a
ZooKeeper store can implement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from broker.metadata.model import ClusterState
from broker.metadata.operations import Node, Operation, apply
from broker.metadata.store import Decision, Listener


class Nodes:
    """The state that all brokers share, with the version of each of its nodes.

    Attributes:
        failing: the next write fails, as without a connection.
        changes: every change so far: the state after it, and the operations that led to it.
    """

    def __init__(self) -> None:
        self.state = ClusterState("shared")
        self.versions: dict[Node, int] = {}
        self.failing = False
        self.changes: list[tuple[ClusterState, list[Operation]]] = []

    def write(self, operations: list[Operation], expected: dict[Node, int]) -> bool:
        """Apply all operations if their nodes have the expected versions; tell whether they had."""
        if self.failing:
            raise OSError("the connection is lost")
        if any(self.versions.get(node, 0) != version for node, version in expected.items()):
            return False
        self.state = replace(apply(self.state, operations), revision=self.state.revision + 1)
        for node in expected:
            self.versions[node] = self.versions.get(node, 0) + 1
        self.changes.append((self.state, operations))
        return True


class NodeStore:
    """One broker's view of `Nodes`.

    Attributes:
        before_write: called between a decision and its write, where another broker may come first.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self.before_write: Callable[[], None] = lambda: None
        self._seen = len(nodes.changes)
        self._state, self._versions = nodes.state, dict(nodes.versions)

    @property
    def state(self) -> ClusterState:
        return self._state

    def look(self) -> None:
        """See what all brokers have changed since the last look, and tell the listeners of each change."""
        self._versions = dict(self._nodes.versions)
        while self._seen < len(self._nodes.changes):
            self._state, operations = self._nodes.changes[self._seen]
            self._seen += 1
            for listener in self._listeners:
                listener(self._state, operations)

    async def commit(self, decide: Decision) -> ClusterState:
        async with self._lock:
            while True:
                operations = list(decide(self._state))
                if not operations:
                    return self._state
                expected = {node: self._versions.get(node, 0) for operation in operations for node in operation.nodes()}
                await asyncio.sleep(0)
                self.before_write()
                written = self._nodes.write(operations, expected)
                self.look()
                if written:
                    return self._state

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)
