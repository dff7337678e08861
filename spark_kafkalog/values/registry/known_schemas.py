"""Schemas that a process knows by their ids, and ids that it knows to be missing.

A producer chooses the ids in its records. Hence both have bounds, and an id that is missing is not asked for with each
record. It is asked for again after some seconds, because it may be registered by then. There is no bound for the
number of different ids to ask for: beyond it, records of schemas that exist would be corrupt because of others. Up to
`REQUESTS` requests run at a time, so that many new ids delay a task less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spark_kafkalog.values.registry.schema_registry import RegisteredSchema

MOST_SCHEMAS = 1000
MOST_MISSING = 10_000
MISSING_S = 10.0
"""The time after which an id that is missing is asked for again."""
REQUESTS = 8
"""The most requests to a registry at a time."""


class KnownSchemas:
    """Keeps the latest schemas of one registry; `ask` requests one by its id, on any thread."""

    def __init__(
        self, ask: Callable[[int], RegisteredSchema | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._found: dict[int, RegisteredSchema] = {}
        self._missing: dict[int, float] = {}
        """The time until which an id is not asked for."""

    def get(self, ids: Collection[int]) -> dict[int, RegisteredSchema]:
        """Return the schemas of those ids that have one. Errors of `ask` pass through."""
        now = self._clock()
        schemas = {each: self._found[each] for each in ids if each in self._found}
        unknown = [each for each in ids if each not in schemas and self._missing.get(each, now) <= now]
        for each, found in self._asked(unknown):
            self._missing.pop(each, None)
            if found is None:
                self._missing[each] = self._clock() + MISSING_S
            else:
                schemas[each] = self._found[each] = found
        drop_oldest(self._missing, MOST_MISSING)
        drop_oldest(self._found, MOST_SCHEMAS)
        return schemas

    def _asked(self, ids: list[int]) -> Iterator[tuple[int, RegisteredSchema | None]]:
        if len(ids) < 2:
            yield from ((each, self._ask(each)) for each in ids)
            return
        threads = ThreadPoolExecutor(min(REQUESTS, len(ids)), thread_name_prefix="schema-registry")
        try:
            yield from zip(ids, threads.map(self._ask, ids), strict=True)
        finally:
            threads.shutdown(cancel_futures=True)


def drop_oldest(kept: dict[int, Any], most: int) -> None:
    """Remove the first entries of a dictionary until it has at most `most`."""
    if len(kept) > most:
        for each in list(kept)[:-most]:
            kept.pop(each, None)
