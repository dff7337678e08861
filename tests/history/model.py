"""Build the model of a history: sends, transactions, and the reads of each session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tests.history.events import FINAL, Action, Event, Isolation, Outcome

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Send:
    """One record that a producer sent."""

    record: str
    client: str
    place: Place
    transaction: str
    source: str
    invoked: int
    outcome: Outcome = Outcome.UNKNOWN
    ended: int = -1
    offset: int = -1

    @property
    def acknowledged(self) -> bool:
        return self.outcome is Outcome.OK


class Fate(Enum):
    """The result of a transaction, as its client knows it."""

    ABORTED = "aborted, or never asked to be committed"
    COMMITTED = "committed"
    UNKNOWN = "asked to be committed, without an answer"


@dataclass(slots=True)
class Transaction:
    """One transaction and the records in it."""

    name: str
    fate: Fate = Fate.ABORTED
    sends: list[Send] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """One assignment of a reader, with (offset, record) of each partition in the order received."""

    name: str
    began: int
    isolation: str
    group: str
    read: dict[Place, list[tuple[int, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """An acknowledged offset commit of a group."""

    group: str
    place: Place
    offset: int
    ended: int


@dataclass(slots=True)
class Model:
    """A whole history. `log[isolation]` has the records of the final session of that isolation: offset → record."""

    sends: dict[str, Send] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    commits: list[GroupCommit] = field(default_factory=list)
    log: dict[str, dict[Place, dict[int, str]]] = field(default_factory=dict)

    def placed(self, isolation: Isolation, topic: str) -> set[str]:
        """Return every record of `topic` that the final session of `isolation` found."""
        log = self.log[isolation]
        return {record for place in log if place[0] == topic for record in log[place].values()}


class MalformedHistoryError(ValueError):
    """The recording is wrong, not the broker: a name twice, an end without a beginning, no final read."""


def build(events: Iterable[Event]) -> Model:
    """Build the model of a history (in the order of time)."""
    model = Model()
    for event in events:
        match event.action:
            case Action.SEND:
                _send(model, event)
            case Action.COMMIT | Action.ABORT:
                _end_transaction(model, event)
            case Action.ASSIGN:
                if event.session in model.sessions:
                    raise MalformedHistoryError(f"session {event.session} begins twice")
                session = Session(event.session, event.time, event.isolation, event.group)
                model.sessions[event.session] = session
            case Action.READ:
                place = (event.topic, event.partition)
                model.sessions[event.session].read.setdefault(place, []).append((event.offset, event.record))
            case Action.COMMIT_OFFSET:
                if event.outcome is Outcome.OK:
                    place = (event.topic, event.partition)
                    model.commits.append(GroupCommit(event.group, place, event.offset, event.time))
    for isolation in Isolation:
        final = model.sessions.get(FINAL + isolation)
        if final is None:
            raise MalformedHistoryError(f"no final session of {isolation}")
        model.log[isolation] = {place: dict(read) for place, read in final.read.items()}
    return model


def _send(model: Model, event: Event) -> None:
    if event.outcome is Outcome.INVOKE:
        if event.record in model.sends:
            raise MalformedHistoryError(f"{event.record} is sent twice")
        place = (event.topic, event.partition)
        send = Send(event.record, event.client, place, event.transaction, event.source, event.time)
        model.sends[event.record] = send
        if event.transaction:
            _transaction(model, event.transaction).sends.append(send)
        return
    ended = model.sends.get(event.record)
    if ended is None:
        raise MalformedHistoryError(f"{event.record} ends without a beginning")
    ended.outcome, ended.ended, ended.offset = event.outcome, event.time, event.offset


def _end_transaction(model: Model, event: Event) -> None:
    transaction = _transaction(model, event.transaction)
    if event.action is Action.COMMIT:
        # Not even an abort after an unanswered commit tells: the answer of the commit may be what was lost.
        transaction.fate = Fate.COMMITTED if event.outcome is Outcome.OK else Fate.UNKNOWN


def _transaction(model: Model, name: str) -> Transaction:
    return model.transactions.setdefault(name, Transaction(name))
