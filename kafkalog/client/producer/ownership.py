"""Producers belong to the process that made them: in a forked process they refuse all use.

A fork copies no threads, so the copy of a producer could send nothing.
"""

from __future__ import annotations

from kafkalog.client.forks import FORKED, own
from kafkalog.client.producer.accumulator import Accumulator, ProducerClosedError

_WHY = f"the producer {FORKED}"


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
        own(self)

    def check(self) -> None:
        """Refuse the use of a producer in a forked process.

        Raises:
            ProducerClosedError: This is a forked process.
        """
        if self.is_lost:
            raise ProducerClosedError(_WHY)

    def lose(self) -> None:
        """Refuse all use from now on."""
        self.is_lost = True
        self._accumulator.disown(_WHY)
