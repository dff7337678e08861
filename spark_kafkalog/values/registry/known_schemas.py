"""Schemas that a process knows by their ids, and ids that it knows to be missing.

A producer chooses the ids in its records. Hence both have bounds, and an id that is missing is not asked for with each
record. It is asked for again after some seconds, because it may be registered by then. There is no bound for the
number of different ids to ask for: beyond it, records of schemas that exist would be corrupt because of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from spark_kafkalog.values.registry.schema_registry import RegisteredSchema

MOST_SCHEMAS = 1000
MOST_MISSING = 10_000
MISSING_S = 10.0
"""The time after which an id that is missing is asked for again."""


class KnownSchemas:
    """Keeps the latest schemas of one registry; `ask` requests one by its id."""

    def __init__(
        self, ask: Callable[[int], RegisteredSchema | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._found: dict[int, RegisteredSchema] = {}
        self._missing: dict[int, float] = {}
        """The time until which an id is not asked for."""

    def get(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of an id; None if there is none. Errors of `ask` pass through."""
        found = self._found.get(schema_id)
        if found is not None or self._missing.get(schema_id, -1.0) > self._clock():
            return found
        found = self._ask(schema_id)
        self._missing.pop(schema_id, None)
        if found is None:
            self._missing[schema_id] = self._clock() + MISSING_S
            drop_oldest(self._missing, MOST_MISSING)
        else:
            self._found[schema_id] = found
            drop_oldest(self._found, MOST_SCHEMAS)
        return found


def drop_oldest(kept: dict[int, Any], most: int) -> None:
    """Remove the first entries of a dictionary until it has at most `most`."""
    if len(kept) > most:
        for each in list(kept)[:-most]:
            kept.pop(each, None)
