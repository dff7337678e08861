"""The interface of a metadata store: commits that change the state, and listeners to changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from broker.metadata.model import ClusterState
from broker.metadata.operations import Operation

logger = logging.getLogger(__name__)

Decision = Callable[[ClusterState], Sequence[Operation]]
"""A pure function from a state to the changes to make. It is called again if another change came first."""

Listener = Callable[[ClusterState, Sequence[Operation]], None]
"""Called with the new state and the operations that led to it, on the event loop, in the order of the changes."""


class MetadataStore(Protocol):
    """A store of the cluster's metadata.

    A store may keep all of its state in one place and hold a lock while it decides (`local.LocalStore`). Or it may keep
    versioned nodes, and write those that the operations name on condition that their versions have not changed since
    the decision; if a condition fails, it decides again. Callers see no difference.
    """

    @property
    def state(self) -> ClusterState:
        """The newest committed state that this broker knows."""

    async def commit(self, decide: Decision) -> ClusterState:
        """Apply all operations that `decide` returns for the newest state, or none; return the new state.

        Commits are carried out one after another. If `decide` raises, nothing is changed and the error is raised
        here. Listeners have been called when this returns.

        Raises:
            OSError: the change could not be stored; the old state stays in force.
        """

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` after each change, including the changes of other brokers."""


def tell(listeners: Iterable[Listener], state: ClusterState, operations: Sequence[Operation]) -> None:
    """Call listeners one after another. One that fails is logged: the change is made, and the others need it."""
    for listener in listeners:
        try:
            listener(state, operations)
        except Exception:
            logger.exception("a change of the cluster's metadata is not taken up by %r", listener)
