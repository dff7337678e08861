"""The findings of a check: the place, the problem, and the remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Level(Enum):
    """Say how much a finding matters."""

    ERROR = "error"
    """Data is lost, or a broker must make a repair before it serves the partition."""
    NOTE = "note"
    """Worth knowing; a broker accepts it as it is."""


class Remedy(Enum):
    """Name what repairs a finding; the value is the text for the user."""

    REBUILD_INDEX = "`kafkalog log repair` builds it anew from the log"
    CUT_TAIL = "`kafkalog log repair` cuts it off, as a broker does at its next start"
    CHOOSE = "`kafkalog log repair` with --skip loses the damaged batches only, with --truncate all from there on"
    REMOVE_SNAPSHOT = "`kafkalog log repair` removes it; a broker finds the state of producers in the log"
    REBUILD_EPOCHS = "`kafkalog log repair` writes it anew from the batches"
    REWRITE_CHECKPOINT = "`kafkalog log repair` writes it anew without what cannot be"
    RESTORE = "restore the file from a replica or a backup"
    WAIT = "none is needed: the broker that runs writes there"
    NONE = ""


@dataclass(frozen=True)
class Finding:
    """Describe one problem, with `position` in bytes and the record's `offset` if they are known."""

    file: str
    problem: str
    remedy: Remedy = Remedy.NONE
    level: Level = Level.ERROR
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = self.file
        if self.position is not None:
            where += f", position {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        remedy = f"\n  remedy: {self.remedy.value}" if self.remedy.value else ""
        return f"{self.level.value}: {where}: {self.problem}{remedy}"

    def row(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {key: value.value if isinstance(value, Enum) else value for key, value in asdict(self).items()}
