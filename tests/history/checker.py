"""Check whether a log can explain a history: pure, from events to violations.

These promises are checked; a name in brackets is the violation:

- An acknowledged record is in the log (LOST), at its acknowledged offset if the client knows it (MISPLACED). No record
  is there twice (DUPLICATE), and none that was not sent, or whose sending certainly failed (PHANTOM).
- An offset has the same record for all readers at all times (CHANGED), and a record that was read stays (VANISHED).
- A session's offsets increase (NOT_MONOTONE) and leave nothing out (SKIPPED).
- The records of one producer in one partition are in the order of sending (REORDERED). If a record was acknowledged
  before another was sent, it has the lower offset (LATE).
- No read_committed session ever sees a record of a transaction that was aborted, or whose commit was never requested
  (ABORTED_READ). In the end it sees all of a transaction or nothing of it, and all of a committed one (TORN).
- A group does not go back behind its committed offsets (GROUP_WENT_BACK), and skips nothing (GROUP_SKIPPED).
- A copy by transactions with offsets has each committed record of its input once and in order (COPY_MISSING,
  COPY_TWICE, COPY_REORDERED), and nothing else (COPY_OF_NOTHING).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tests.history.events import Event, Isolation, Outcome
from tests.history.model import Fate, Model, Place, build


class Kind(StrEnum):
    """The kinds of broken promises."""

    LOST = "lost"
    MISPLACED = "misplaced"
    DUPLICATE = "duplicate"
    PHANTOM = "phantom"
    CHANGED = "changed"
    VANISHED = "vanished"
    NOT_MONOTONE = "not monotone"
    SKIPPED = "skipped"
    REORDERED = "reordered"
    LATE = "late"
    ABORTED_READ = "aborted read"
    TORN = "torn transaction"
    GROUP_WENT_BACK = "group went back"
    GROUP_SKIPPED = "group skipped"
    COPY_MISSING = "copy missing"
    COPY_TWICE = "copy twice"
    COPY_OF_NOTHING = "copy of nothing"
    COPY_REORDERED = "copy reordered"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check(events: Iterable[Event], copies: Mapping[str, str] | None = None) -> list[Violation]:
    """Return every violation of a history in the order of time; `copies` maps a copy's topic to its original.

    Raises:
        MalformedHistoryError: The recording itself is inconsistent.
    """
    model = build(events)
    checks = (
        check_places,
        check_sent,
        check_agreement,
        check_sessions,
        check_producer_order,
        check_real_time,
        check_aborted,
        check_transactions,
        check_groups,
    )
    found = [violation for each in checks for violation in each(model)]
    for copy, original in (copies or {}).items():
        found += check_copy(model, copy, original)
    return found


def _log(model: Model, isolation: Isolation = Isolation.UNCOMMITTED) -> Iterator[tuple[Place, int, str]]:
    for place, records in model.log[isolation].items():
        for offset, record in records.items():
            yield place, offset, record


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]} offset {offset}"


def check_places(model: Model) -> Iterator[Violation]:
    """Check that acknowledged records are at their offsets, for each isolation that may see them."""
    where = {record: (place, offset) for place, offset, record in _log(model)}
    committed = {record for _, _, record in _log(model, Isolation.COMMITTED)}
    for send in model.sends.values():
        if not send.acknowledged:
            continue
        found = where.get(send.record)
        if found is None:
            yield Violation(Kind.LOST, f"{send.record} was acknowledged at {_at(send.place, send.offset)}")
        elif send.offset >= 0 and found != (send.place, send.offset):
            told = f"{send.record} was acknowledged at {_at(send.place, send.offset)} and is at {_at(*found)}"
            yield Violation(Kind.MISPLACED, told)
        elif not send.transaction and send.record not in committed:
            told = f"{send.record}, of no transaction, is not found by {Isolation.COMMITTED}"
            yield Violation(Kind.LOST, told)


def check_sent(model: Model) -> Iterator[Violation]:
    """Check that every record in the log was sent to that partition, once."""
    times = Counter(record for _, _, record in _log(model))
    for record, count in times.items():
        if count > 1:
            places = [_at(place, offset) for place, offset, found in _log(model) if found == record]
            yield Violation(Kind.DUPLICATE, f"{record} is at {', '.join(places)}")
    for place, offset, record in _log(model):
        send = model.sends.get(record)
        if send is None:
            yield Violation(Kind.PHANTOM, f"{record} at {_at(place, offset)} was never sent")
        elif send.place != place:
            yield Violation(
                Kind.PHANTOM, f"{record} at {_at(place, offset)} was sent to {send.place[0]}-{send.place[1]}"
            )
        elif send.outcome is Outcome.FAIL:
            yield Violation(Kind.PHANTOM, f"{record} at {_at(place, offset)}: its sending failed")


def check_agreement(model: Model) -> Iterator[Violation]:
    """Check that every session saw what the final read_uncommitted session finds."""
    truth = model.log[Isolation.UNCOMMITTED]
    for session in model.sessions.values():
        for place, read in session.read.items():
            there = truth.get(place, {})
            for offset, record in read:
                found = there.get(offset)
                if found is None:
                    yield Violation(Kind.VANISHED, f"{session.name} read {record} at {_at(place, offset)}")
                elif found != record:
                    told = f"{session.name} read {record} at {_at(place, offset)}, where {found} is"
                    yield Violation(Kind.CHANGED, told)


def check_sessions(model: Model) -> Iterator[Violation]:
    """Check that offsets rise within a session, and that nothing between its first and last is left out."""
    ordered = {
        isolation: {place: sorted(records) for place, records in model.log[isolation].items()}
        for isolation in Isolation
    }
    for session in model.sessions.values():
        for place, read in session.read.items():
            for (before, _), (after, record) in pairwise(read):
                if after <= before:
                    told = f"{session.name} read {record} at {_at(place, after)} after offset {before}"
                    yield Violation(Kind.NOT_MONOTONE, told)
            offsets = {offset for offset, _ in read}
            there = ordered[Isolation(session.isolation)].get(place, [])
            span = there[bisect_left(there, min(offsets)) : bisect_right(there, max(offsets))]
            for offset in span:
                if offset not in offsets:
                    record = model.log[session.isolation][place][offset]
                    yield Violation(Kind.SKIPPED, f"{session.name} passed over {record} at {_at(place, offset)}")


def check_producer_order(model: Model) -> Iterator[Violation]:
    """Check that the records of one client in one partition are in the order of sending."""
    where = {record: offset for _, offset, record in _log(model)}
    last: dict[tuple[str, Place], tuple[int, str]] = {}
    for send in model.sends.values():
        offset = where.get(send.record)
        if offset is None:
            continue
        key = (send.client, send.place)
        before, record = last.get(key, (-1, ""))
        if offset < before:
            told = f"{send.record} at {_at(send.place, offset)} was sent after {record}, which is at {before}"
            yield Violation(Kind.REORDERED, told)
        last[key] = max((before, record), (offset, send.record))


def check_real_time(model: Model) -> Iterator[Violation]:
    """Check that a record acknowledged before another was sent has the lower offset."""
    for place, records in model.log[Isolation.UNCOMMITTED].items():
        earliest, above = None, ""
        for offset in sorted(records, reverse=True):
            send = model.sends.get(records[offset])
            if send is None:
                continue
            if earliest is not None and earliest < send.invoked:
                told = f"{above} was acknowledged before {send.record}, now at {_at(place, offset)}, was sent"
                yield Violation(Kind.LATE, told)
            if send.acknowledged and (earliest is None or send.ended < earliest):
                earliest, above = send.ended, send.record


def check_aborted(model: Model) -> Iterator[Violation]:
    """Check that no read_committed session saw a record of a transaction that cannot have been committed."""
    for session in model.sessions.values():
        if session.isolation != Isolation.COMMITTED:
            continue
        for place, read in session.read.items():
            for offset, record in read:
                send = model.sends.get(record)
                if send is None or not send.transaction:
                    continue
                if model.transactions[send.transaction].fate is Fate.ABORTED:
                    told = f"{session.name} read {record} of {send.transaction} at {_at(place, offset)}"
                    yield Violation(Kind.ABORTED_READ, told)


def check_transactions(model: Model) -> Iterator[Violation]:
    """Check that in the end all of a transaction or nothing is visible, and all of a committed one."""
    visible = {record for _, _, record in _log(model, Isolation.COMMITTED)}
    for transaction in model.transactions.values():
        sent = [send.record for send in transaction.sends if send.outcome is not Outcome.FAIL]
        seen = [record for record in sent if record in visible]
        if transaction.fate is Fate.ABORTED or len(seen) == len(sent):
            continue
        if transaction.fate is Fate.COMMITTED or seen:
            absent = [record for record in sent if record not in visible]
            told = (
                f"{transaction.name} ({transaction.fate.value}): {len(seen)} of {len(sent)} are visible, not {absent}"
            )
            yield Violation(Kind.TORN, told)


def check_groups(model: Model) -> Iterator[Violation]:
    """Check that a group's session begins exactly at the offset committed when it was assigned."""
    by_group: dict[tuple[str, Place], list[tuple[int, int]]] = defaultdict(list)
    for commit in model.commits:
        by_group[commit.group, commit.place].append((commit.ended, commit.offset))
    for session in model.sessions.values():
        if not session.group:
            continue
        for place, read in session.read.items():
            earlier = [offset for ended, offset in by_group[session.group, place] if ended < session.began]
            if earlier and read[0][0] < max(earlier):
                told = (
                    f"{session.name} begins at {_at(place, read[0][0])}; {session.group} had committed {max(earlier)}"
                )
                yield Violation(Kind.GROUP_WENT_BACK, told)
    seen: dict[tuple[str, str, Place], set[int]] = defaultdict(set)
    for session in model.sessions.values():
        if session.group:
            for place, read in session.read.items():
                seen[session.group, session.isolation, place].update(offset for offset, _ in read)
    for (group, isolation, place), offsets in seen.items():
        for offset, record in model.log[isolation].get(place, {}).items():
            if offset < max(offsets) and offset not in offsets:
                yield Violation(Kind.GROUP_SKIPPED, f"{group} passed over {record} at {_at(place, offset)}")


def check_copy(model: Model, copy: str, original: str) -> Iterator[Violation]:
    """Check that `copy` has the visible records of `original`, each once, in each partition's order."""
    inputs = {record: (place, offset) for place, offset, record in _log(model, Isolation.COMMITTED)}
    wanted = {record for record, (place, _) in inputs.items() if place[0] == original}
    found: Counter[str] = Counter()
    for place, records in model.log[Isolation.COMMITTED].items():
        if place[0] != copy:
            continue
        last: dict[Place, tuple[int, str]] = {}
        for offset in sorted(records):
            send = model.sends.get(records[offset])
            if send is None:
                continue
            if send.source not in wanted:
                told = f"{send.record} at {_at(place, offset)} copies {send.source}, which is not visible in {original}"
                yield Violation(Kind.COPY_OF_NOTHING, told)
                continue
            found[send.source] += 1
            source_place, source_offset = inputs[send.source]
            before, record = last.get(source_place, (-1, ""))
            if source_offset < before:
                told = f"{send.source} at {_at(place, offset)} follows {record}, which it precedes in {original}"
                yield Violation(Kind.COPY_REORDERED, told)
            last[source_place] = (source_offset, send.source)
    for record in sorted(wanted - found.keys()):
        yield Violation(Kind.COPY_MISSING, f"{record} at {_at(*inputs[record])} was not copied to {copy}")
    for record, count in found.items():
        if count > 1:
            yield Violation(Kind.COPY_TWICE, f"{record} at {_at(*inputs[record])} is {count} times in {copy}")
