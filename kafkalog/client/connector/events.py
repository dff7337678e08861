"""What has happened to a group, and which steps of a member follow from it."""

from __future__ import annotations

from enum import IntEnum

from kafkalog.client.connector.member import Member, Watch
from kafkalog.client.zookeeper.steps import Steps


class Event(IntEnum):
    """What a member does about what has happened; a larger one includes the smaller ones."""

    LOOK = 1
    """A change that need not concern the partitions; or the connection was lost, and all watches with it."""
    REBALANCE = 2
    """Members or partitions have changed, or the last rebalance has failed."""
    EXPIRED = 3
    """The session has expired."""

    @classmethod
    def of(cls, watch: Watch) -> Event:
        """Return the event of a watch that fired."""
        return cls.LOOK if watch in (Watch.BROKERS, Watch.TOPICS) else cls.REBALANCE

    def steps(self, member: Member) -> Steps[None]:
        """Return what the member does."""
        match self:
            case Event.EXPIRED:
                return member.expired()
            case Event.REBALANCE:
                return member.rebalance()
        return member.look()
