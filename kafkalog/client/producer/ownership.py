"""Producers belong to the process that made them: in a forked process they refuse all use.

A fork copies no threads, so the copy of a producer could send nothing.
"""

from __future__ import annotations

import os
import weakref

from kafkalog.client.producer.accumulator import Accumulator, ProducerClosedError

FORKED = "the producer belongs to the process that this one was forked from; make another one here"


class Ownership:
    """The ownership of a producer by the process that made it.

    Args:
        accumulator: The producer's records; it takes none any more in a forked process.

    Attributes:
        is_lost: Whether this is a forked process.
    """

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self.is_lost = False
        _owned.add(self)

    def check(self) -> None:
        """Refuse the use of a producer in a forked process.

        Raises:
            ProducerClosedError: This is a forked process.
        """
        if self.is_lost:
            raise ProducerClosedError(FORKED)

    def lose(self) -> None:
        """Refuse all use from now on."""
        self.is_lost = True
        self._accumulator.disown(FORKED)


_owned: weakref.WeakSet[Ownership] = weakref.WeakSet()
"""The producers of this process, for one fork hook. The set belongs to the process because a fork does. A hook cannot
be removed, so a hook for each producer would never go away. Only the hook reads the set."""


def _lose_all() -> None:
    for ownership in list(_owned):
        ownership.lose()


os.register_at_fork(after_in_child=_lose_all)
