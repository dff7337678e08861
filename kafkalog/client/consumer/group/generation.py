"""The identity of a group's member, and what a member does about an error; the same in both group protocols."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

NO_GENERATION_ID = -1


class Next(Enum):
    """The step to take after an error that the coordinator reports."""

    AGAIN = auto()
    """Send the request again at once."""
    BACK_OFF = auto()
    """Send it again after `retry.backoff.ms`."""
    FIND = auto()
    """Look the coordinator up, then send it again."""
    REJOIN = auto()
    """Join the group again, at the next chance."""
    FAIL = auto()
    """Raise the error: another try does not help."""


class Generation(NamedTuple):
    """The composition of the group that a member belongs to, and its member id; -1 and "" outside of any group.

    Under the consumer protocol `id` is the member epoch, which grows while the member stays in the group;
    `incarnation` changes when it has left and joined again.
    """

    id: int = NO_GENERATION_ID
    member_id: str = ""
    protocol: str | None = None
    incarnation: int = 0

    @property
    def valid(self) -> bool:
        """Return whether the member belongs to the group."""
        return self.id != NO_GENERATION_ID and bool(self.member_id)


NO_GENERATION = Generation()
