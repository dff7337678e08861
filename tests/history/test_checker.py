"""Test that the checker finds each kind of violation, and none in a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.history.checker import Kind, check
from tests.history.events import FINAL, Action, Event, Isolation, Outcome, merge
from tests.history.model import MalformedHistoryError

IN, OUT = "in", "out"
BOTH = (Isolation.UNCOMMITTED, Isolation.COMMITTED)


class Tape:
    """Record a history, one event a tick."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, client: str, action: Action, outcome: Outcome = Outcome.OK, **told: str | int) -> None:
        self.events.append(Event(len(self.events), client, action, outcome, **told))  # type: ignore[arg-type]

    def send(
        self,
        record: str,
        offset: int | None,
        *,
        client: str = "w",
        topic: str = IN,
        partition: int = 0,
        transaction: str = "",
        source: str = "",
        outcome: Outcome = Outcome.OK,
    ) -> None:
        """Send a record of the client; without an offset the request is never answered."""
        what: dict[str, str | int] = {"topic": topic, "partition": partition, "record": record}
        self.add(client, Action.SEND, Outcome.INVOKE, **what, transaction=transaction, source=source)
        if offset is not None:
            self.add(client, Action.SEND, outcome, **what, offset=offset)

    def end(self, transaction: str, action: Action, outcome: Outcome | None = Outcome.OK, client: str = "t") -> None:
        self.add(client, action, Outcome.INVOKE, transaction=transaction)
        if outcome is not None:
            self.add(client, action, outcome, transaction=transaction)

    def read(
        self,
        session: str,
        found: dict[int, str],
        isolation: Isolation = Isolation.UNCOMMITTED,
        *,
        topic: str = IN,
        partition: int = 0,
        group: str = "",
        assign: bool = True,
    ) -> None:
        if assign:
            self.add(session, Action.ASSIGN, session=session, isolation=isolation, group=group)
        for offset, record in found.items():
            self.add(
                session, Action.READ, session=session, topic=topic, partition=partition, offset=offset, record=record
            )

    def final(self, *logs: tuple[str, int, dict[int, str]], isolations: tuple[Isolation, ...] = BOTH) -> None:
        for isolation in isolations:
            for number, (topic, partition, found) in enumerate(logs):
                self.read(FINAL + isolation, found, isolation, topic=topic, partition=partition, assign=number == 0)

    def kinds(self, copies: dict[str, str] | None = None) -> list[Kind]:
        return [violation.kind for violation in check(self.events, copies)]


def sound() -> Tape:
    """Return a correct history: plain records, transactions of every result, readers, a group, a copy."""
    tape = Tape()
    tape.send("a", 0)
    tape.send("b", 1)
    tape.send("lost on the way", None)
    tape.send("t1", 2, transaction="T1")
    tape.send("t2", 0, transaction="T1", partition=1)
    tape.end("T1", Action.COMMIT)
    tape.send("x1", 4, transaction="X")
    tape.end("X", Action.ABORT)
    tape.send("o1", 6, transaction="O")
    tape.send("u1", 8, transaction="U")
    tape.end("U", Action.COMMIT, None)
    tape.read("live", {0: "a", 1: "b", 2: "t1", 4: "x1"})
    tape.read("careful", {1: "b", 2: "t1", 8: "u1"}, Isolation.COMMITTED)
    tape.read("member 1", {0: "a", 1: "b"}, group="g")
    tape.add("member 1", Action.COMMIT_OFFSET, Outcome.INVOKE, group="g", topic=IN, partition=0, offset=1)
    tape.add("member 1", Action.COMMIT_OFFSET, group="g", topic=IN, partition=0, offset=1)
    tape.read("member 2", {1: "b", 2: "t1"}, group="g")
    for offset, record in enumerate(["a", "b", "t1", "u1"]):
        tape.send(f"copy of {record}", offset, topic=OUT, transaction="C", source=record, client="c")
    tape.send("copy of t2", 0, topic=OUT, partition=1, transaction="C", source="t2", client="c")
    tape.end("C", Action.COMMIT)
    copied = {offset: f"copy of {record}" for offset, record in enumerate(["a", "b", "t1", "u1"])}
    visible = {0: "a", 1: "b", 2: "t1", 8: "u1"}
    rest = [(IN, 1, {0: "t2"}), (OUT, 0, copied), (OUT, 1, {0: "copy of t2"})]
    tape.final(
        (IN, 0, {0: "a", 1: "b", 2: "t1", 4: "x1", 6: "o1", 8: "u1"}), *rest, isolations=(Isolation.UNCOMMITTED,)
    )
    tape.final((IN, 0, visible), *rest, isolations=(Isolation.COMMITTED,))
    return tape


def test_a_sound_history_has_no_violation() -> None:
    assert [str(violation) for violation in check(sound().events, {OUT: IN})] == []


def lost(tape: Tape) -> None:
    tape.send("a", 0)
    tape.final((IN, 0, {}))


def lost_to_read_committed(tape: Tape) -> None:
    tape.send("a", 0)
    tape.final((IN, 0, {0: "a"}), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 0, {}), isolations=(Isolation.COMMITTED,))


def misplaced(tape: Tape) -> None:
    tape.send("a", 0)
    tape.final((IN, 0, {1: "a"}))


def duplicate(tape: Tape) -> None:
    tape.send("a", 0)
    tape.final((IN, 0, {0: "a", 1: "a"}))


def twice_though_unanswered(tape: Tape) -> None:
    tape.send("a", None)
    tape.final((IN, 0, {0: "a", 1: "a"}))


def never_sent(tape: Tape) -> None:
    tape.final((IN, 0, {0: "a"}))


def in_another_partition(tape: Tape) -> None:
    tape.send("a", None, partition=1)
    tape.final((IN, 0, {0: "a"}))


def there_though_refused(tape: Tape) -> None:
    tape.send("a", -1, outcome=Outcome.FAIL)
    tape.final((IN, 0, {0: "a"}))


def changed(tape: Tape) -> None:
    tape.send("a", 0)
    tape.send("b", None)
    tape.read("live", {0: "b"})
    tape.final((IN, 0, {0: "a"}))


def vanished(tape: Tape) -> None:
    tape.send("a", None)
    tape.read("live", {0: "a"})
    tape.final((IN, 0, {}))


def read_twice(tape: Tape) -> None:
    tape.send("a", 0)
    tape.read("live", {0: "a"})
    tape.read("live", {0: "a"}, assign=False)
    tape.final((IN, 0, {0: "a"}))


def skipped(tape: Tape) -> None:
    for offset, record in enumerate("abc"):
        tape.send(record, offset)
    tape.read("live", {0: "a", 2: "c"})
    tape.final((IN, 0, {0: "a", 1: "b", 2: "c"}))


def reordered(tape: Tape) -> None:
    tape.send("a", None)
    tape.send("b", None)
    tape.final((IN, 0, {0: "b", 1: "a"}))


def late(tape: Tape) -> None:
    tape.send("a", 1, client="one")
    tape.send("b", 0, client="another")
    tape.final((IN, 0, {0: "b", 1: "a"}))


def aborted_read(tape: Tape) -> None:
    tape.send("a", 0, transaction="T")
    tape.end("T", Action.ABORT)
    tape.read("careful", {0: "a"}, Isolation.COMMITTED)
    tape.final((IN, 0, {0: "a"}), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 0, {}), isolations=(Isolation.COMMITTED,))


def never_committed_but_visible(tape: Tape) -> None:
    tape.send("a", None, transaction="T")
    tape.final((IN, 0, {0: "a"}))


def committed_but_torn(tape: Tape) -> None:
    tape.send("a", 0, transaction="T")
    tape.send("b", 0, transaction="T", partition=1)
    tape.end("T", Action.COMMIT)
    tape.final((IN, 0, {0: "a"}), (IN, 1, {0: "b"}), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 0, {0: "a"}), isolations=(Isolation.COMMITTED,))


def unanswered_and_torn(tape: Tape) -> None:
    tape.send("a", 0, transaction="T")
    tape.send("b", 0, transaction="T", partition=1)
    tape.end("T", Action.COMMIT, Outcome.UNKNOWN)
    tape.end("T", Action.ABORT)
    tape.final((IN, 0, {0: "a"}), (IN, 1, {0: "b"}), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 1, {0: "b"}), isolations=(Isolation.COMMITTED,))


def committed_but_invisible(tape: Tape) -> None:
    tape.send("a", 0, transaction="T")
    tape.end("T", Action.COMMIT)
    tape.final((IN, 0, {0: "a"}), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 0, {}), isolations=(Isolation.COMMITTED,))


def group_went_back(tape: Tape) -> None:
    for offset, record in enumerate("ab"):
        tape.send(record, offset)
    tape.read("member 1", {0: "a", 1: "b"}, group="g")
    tape.add("member 1", Action.COMMIT_OFFSET, group="g", topic=IN, partition=0, offset=2)
    tape.read("member 2", {1: "b"}, group="g")
    tape.final((IN, 0, {0: "a", 1: "b"}))


def group_skipped(tape: Tape) -> None:
    for offset, record in enumerate("abc"):
        tape.send(record, offset)
    tape.read("member 1", {0: "a"}, group="g")
    tape.read("member 2", {2: "c"}, group="g")
    tape.final((IN, 0, {0: "a", 1: "b", 2: "c"}))


BROKEN = [
    (lost, Kind.LOST),
    (lost_to_read_committed, Kind.LOST),
    (misplaced, Kind.MISPLACED),
    (duplicate, Kind.DUPLICATE),
    (twice_though_unanswered, Kind.DUPLICATE),
    (never_sent, Kind.PHANTOM),
    (in_another_partition, Kind.PHANTOM),
    (there_though_refused, Kind.PHANTOM),
    (changed, Kind.CHANGED),
    (vanished, Kind.VANISHED),
    (read_twice, Kind.NOT_MONOTONE),
    (skipped, Kind.SKIPPED),
    (reordered, Kind.REORDERED),
    (late, Kind.LATE),
    (aborted_read, Kind.ABORTED_READ),
    (never_committed_but_visible, Kind.ABORTED_READ),
    (committed_but_torn, Kind.TORN),
    (unanswered_and_torn, Kind.TORN),
    (committed_but_invisible, Kind.TORN),
    (group_went_back, Kind.GROUP_WENT_BACK),
    (group_skipped, Kind.GROUP_SKIPPED),
]


@pytest.mark.parametrize(("make", "kind"), BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_a_broken_promise_is_found(make: Callable[[Tape], None], kind: Kind) -> None:
    tape = Tape()
    make(tape)
    assert kind in tape.kinds()


def copied(*copies: tuple[str, str]) -> list[Kind]:
    """Return the violations for an input a, b (committed) and x (aborted), copied as `copies` (copy, source)."""
    tape = Tape()
    tape.send("a", 0)
    tape.send("b", 1)
    tape.send("x", 2, transaction="X", client="t")
    tape.end("X", Action.ABORT)
    for offset, (record, source) in enumerate(copies):
        tape.send(record, offset, topic=OUT, source=source, transaction="C", client="c")
    tape.end("C", Action.COMMIT)
    found = {offset: record for offset, (record, _) in enumerate(copies)}
    tape.final((IN, 0, {0: "a", 1: "b", 2: "x"}), (OUT, 0, found), isolations=(Isolation.UNCOMMITTED,))
    tape.final((IN, 0, {0: "a", 1: "b"}), (OUT, 0, found), isolations=(Isolation.COMMITTED,))
    return tape.kinds({OUT: IN})


def test_copies() -> None:
    assert copied(("1", "a"), ("2", "b")) == []
    assert copied(("1", "a")) == [Kind.COPY_MISSING]
    assert copied(("1", "a"), ("2", "b"), ("3", "b")) == [Kind.COPY_TWICE]
    assert copied(("1", "a"), ("2", "b"), ("3", "x")) == [Kind.COPY_OF_NOTHING]
    assert copied(("1", "b"), ("2", "a")) == [Kind.COPY_REORDERED]


def test_a_group_that_reads_again_what_it_had_not_committed_is_sound() -> None:
    tape = Tape()
    for offset, record in enumerate("ab"):
        tape.send(record, offset)
    tape.read("member 1", {0: "a", 1: "b"}, group="g")
    tape.add("member 1", Action.COMMIT_OFFSET, Outcome.INVOKE, group="g", topic=IN, partition=0, offset=2)
    tape.read("member 2", {0: "a"}, group="g")
    tape.final((IN, 0, {0: "a", 1: "b"}))
    assert tape.kinds() == []


def test_an_acknowledgement_may_come_without_the_offset() -> None:
    tape = Tape()
    tape.send("a", -1)
    tape.send("b", -1)
    tape.final((IN, 0, {0: "a"}))
    assert tape.kinds() == [Kind.LOST]


def test_recordings_that_contradict_themselves() -> None:
    tape = sound()
    with pytest.raises(MalformedHistoryError, match="sent twice"):
        check([tape.events[0], *tape.events])
    with pytest.raises(MalformedHistoryError, match="no final session"):
        check(tape.events[:5])
    with pytest.raises(MalformedHistoryError, match="without a beginning"):
        check(tape.events[1:])


def test_events_survive_a_file_and_a_line_cut_off() -> None:
    events = sound().events
    files = [b"".join(event.to_line() for event in events[start::2]) for start in range(2)]
    assert merge(files) == events
    assert merge([files[0] + b'{"time":17,"clie']) == events[::2]
