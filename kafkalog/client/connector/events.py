"""The events of a group, and the steps that a member takes after them."""

from __future__ import annotations

from enum import IntEnum

from kafkalog.client.connector.member import Member, Watch
from kafkalog.client.zookeeper.steps import Steps
from kafkalog.zookeeper.values import SessionState


class Event(IntEnum):
    """An event that a member acts on. What it does after a larger one includes what it does after the smaller ones."""

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

    @classmethod
    def of_state(cls, state: SessionState) -> Event | None:
        """Return the event of a change of the session's state; None where there is nothing to do yet."""
        return {SessionState.EXPIRED: cls.EXPIRED, SessionState.CONNECTED: cls.LOOK}.get(state)

    def joined(self, pending: Event | None) -> Event:
        """Return one event for this one and for another one that waits, if there is one."""
        return self if pending is None else max(self, pending)

    def steps(self, member: Member) -> Steps[None]:
        """Return what the member does."""
        match self:
            case Event.EXPIRED:
                return member.expired()
            case Event.REBALANCE:
                return member.rebalance()
        return member.look()
