"""The interface of a registry: what the controller and the broker ask of it, whoever keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.metadata.model import ClusterState

Change = Callable[[ClusterState], ClusterState]


class MetadataStore(Protocol):
    """A registry. ``state`` is the newest committed state and never a half-made one."""

    @property
    def state(self) -> ClusterState: ...

    def load(self) -> ClusterState:
        """Read what is stored, or begin an empty registry.

        Raises:
            MetadataError: what is stored cannot be read.
        """

    async def commit(self, change: Change) -> ClusterState:
        """Apply ``change`` to the newest state, durably, and return the result.

        Changes are applied one after the other. When ``change`` raises, nothing is stored and the error is passed on.

        Raises:
            OSError: the state could not be stored; the old one stays in force.
        """
