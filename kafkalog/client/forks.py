"""Clients belong to the process that made them: in a forked process they refuse all use.

A fork copies no threads, but it copies locks that threads hold. It copies sockets as well. Two processes that use one
connection take each other's answers, and a connection ends for the broker only when all its copies are closed.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

FORKED = "belongs to the process that this one was forked from; make another one here"


class Owned(Protocol):
    """Something that belongs to the process that made it."""

    def lose(self) -> None:
        """Refuse all use from now on, in a forked process. Wait for no lock: nobody may be there to release it."""


_owned: weakref.WeakSet[Owned] = weakref.WeakSet()
"""The objects of this process, for one fork hook. A hook cannot be removed, so a hook for each object would never go
away. Only the hook reads the set."""


def own(made: Owned) -> None:
    """Note that this process owns an object. If the process forks, the child's copy of the object is lost."""
    _owned.add(made)


def _lose_all() -> None:
    for each in list(_owned):
        each.lose()


os.register_at_fork(after_in_child=_lose_all)
