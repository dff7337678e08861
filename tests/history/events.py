"""The events of a history: what clients do, and the responses that they get.

An operation is an INVOKE, written before the request, and at most one event that ends it: OK (the broker did it), FAIL
(it certainly did not), UNKNOWN (it may have). An operation without an end counts as UNKNOWN: the client was killed
during it. Times are of CLOCK_MONOTONIC in ns, which all processes of a machine share.

| action | of | fields besides time, client |
|--|--|--|
| SEND | producers | topic, partition, record, transaction, source (the record it is a copy of); OK: offset |
| COMMIT, ABORT | transactional producers | transaction |
| ASSIGN | readers; OK only | session, isolation, group |
| READ | readers; OK only | session, topic, partition, offset, record |
| COMMIT_OFFSET | readers in a group | group, topic, partition, offset (the next to be read) |

Text that does not apply is empty. A client is one process of one role: started again it is another client. A
transaction's name is unique in the history, as is a record's. A session is one assignment of one reader: in each
partition it reads onwards from where it began. The sessions named FINAL + isolation read every partition from its
beginning to its end, after everything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

FINAL = "final "


class Action(StrEnum):
    """An action of a client."""

    SEND = "send"
    COMMIT = "commit"
    ABORT = "abort"
    ASSIGN = "assign"
    READ = "read"
    COMMIT_OFFSET = "commit offset"


class Outcome(StrEnum):
    """The state of an operation."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Isolation(StrEnum):
    """The `isolation.level` of a reader."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history; see the module for which fields an action has."""

    time: int
    client: str
    action: Action
    outcome: Outcome
    topic: str = ""
    partition: int = -1
    offset: int = -1
    record: str = ""
    transaction: str = ""
    source: str = ""
    session: str = ""
    isolation: str = ""
    group: str = ""
    error: str = ""

    def to_line(self) -> bytes:
        """Return JSON without the fields that the event does not use."""
        told = {name: value for name, value in asdict(self).items() if value not in ("", -1)}
        return json.dumps(told, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Event:
        """Parse a line of `to_line`.

        Raises:
            ValueError: The line was cut off.
        """
        told = json.loads(line)
        told["action"] = Action(told["action"])
        told["outcome"] = Outcome(told["outcome"])
        return cls(**{field.name: told[field.name] for field in fields(cls) if field.name in told})


def merge(files: Iterable[bytes]) -> list[Event]:
    """Merge the files of all clients into a history, in the order of time.

    A killed client may leave half a line at the end of its file, which is ignored.
    """
    events = [Event.from_line(line) for data in files for line in data[: data.rfind(b"\n") + 1].splitlines()]
    return sorted(events, key=lambda event: event.time)
