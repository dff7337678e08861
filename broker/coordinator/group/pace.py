"""Work on many groups in turns with requests.

The work is counted and not timed, so that what is done in which turn does not depend on the machine.
"""

from __future__ import annotations

import asyncio

UNITS_AT_ONCE = 500
"""The units of work after which requests get their turn. They take about 5 ms."""
OFFSETS_OF_UNIT = 16
BYTES_OF_UNIT = 256


class Pace:
    """Counts the units of work of one walk over groups. A group is a unit, and so is each of its members."""

    def __init__(self) -> None:
        self._done = 0

    async def take(self, *, members: int = 0, offsets: int = 0, nbytes: int = 0) -> None:
        """Call this before working on a group: requests get their turn first if the work is too much for this one.

        Args:
            members: the number of members that are worked on.
            offsets: the number of committed offsets that are worked on.
            nbytes: the bytes of members' subscriptions that are decoded.
        """
        units = 1 + members + offsets // OFFSETS_OF_UNIT + nbytes // BYTES_OF_UNIT
        if self._done and self._done + units > UNITS_AT_ONCE:
            self._done = 0
            await asyncio.sleep(0)
        self._done += units

    def add(self, members: int) -> None:
        """Count members whose number was not known before the work."""
        self._done += members
