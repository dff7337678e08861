"""The interface of a registry, whoever keeps it: how its state is changed, and how changes are learned of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.metadata.model import ClusterState
from broker.metadata.operations import Operation

Decision = Callable[[ClusterState], Sequence[Operation]]
"""What is to be changed in a state: a pure function, which may be asked again where another change came first."""

Listener = Callable[[ClusterState, Sequence[Operation]], None]
"""Called with the new state and the operations that led to it, on the event loop, in the order of the changes."""


class MetadataStore(Protocol):
    """A registry.

    A store may keep all of its state in one place and hold a lock while it decides (`local.LocalStore`), or keep
    nodes that have versions each and write those that the operations name, on the condition that their versions are the
    ones which the decision was based on. The latter decides again when a condition fails. To callers both are alike.
    """

    @property
    def state(self) -> ClusterState:
        """The newest committed state that this broker knows, never a half-made one."""

    async def commit(self, decide: Decision) -> ClusterState:
        """Carry out what ``decide`` makes of the newest state, all of it or nothing, and return the result.

        Commits are carried out one after the other. When ``decide`` raises, nothing is changed and the error is passed
        on. Listeners have been called when this returns.

        Raises:
            OSError: the change could not be stored; the old state stays in force.
        """

    def subscribe(self, listener: Listener) -> None:
        """Have ``listener`` called after each change, those that other brokers make included."""
