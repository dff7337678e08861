"""Schemas that a process knows by their ids, and ids that it knows to be missing.

A producer chooses the ids in its records. Hence both have bounds, and an id that is missing is not asked for with each
record. It is asked for again after some seconds, because it may be registered by then. Up to `REQUESTS` requests run at
a time, so that many new ids delay a task less.

A task ends at too many different ids that are missing, because each costs a request. To go on without a request would
make records of schemas that exist corrupt because of others. Confluent's deserializer ends at the first such id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spark_kafkalog.values.registry.registry_error import SchemaRegistryError
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema

MOST_SCHEMAS = 1000
MOST_MISSING = 10_000
MISSING_S = 10.0
"""The time after which an id that is missing is asked for again."""
REQUESTS = 8
"""The most requests to a registry at a time."""
_ASKED_AT_ONCE = 100
"""The ids that a task asks for before it counts those that are missing."""


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


class TaskSchemas:
    """The schemas of the records of one task, which may have a limited number of ids without a schema.

    Args:
        known: Finds the schemas of ids.
        most_missing: The most different ids that may be missing.
    """

    def __init__(self, known: Callable[[Collection[int]], Mapping[int, RegisteredSchema]], most_missing: int) -> None:
        self._known = known
        self._most = most_missing
        self._missing: set[int] = set()

    def begin(self) -> None:
        """Begin another task, or another micro-batch that the planner reads."""
        self._missing.clear()

    def get(self, ids: Collection[int]) -> dict[int, RegisteredSchema]:
        """Return the schemas of those ids that have one. Errors of `known` pass through.

        Raises:
            SchemaRegistryError: Too many ids of the task have none.
        """
        schemas: dict[int, RegisteredSchema] = {}
        asked = list(ids)
        for start in range(0, len(asked), _ASKED_AT_ONCE):
            some = asked[start : start + _ASKED_AT_ONCE]
            found = self._known(some)
            schemas |= found
            self._missing.update(each for each in some if each not in found)
            if len(self._missing) > self._most:
                examples = ", ".join(map(str, sorted(self._missing)[:3]))
                raise SchemaRegistryError(
                    f"schema registry: it knows none of {len(self._missing)} schema ids in the records of one task, "
                    f"such as {examples}, and each costs a request. If the values have no frames with ids, set "
                    "avroFraming=none and valueSchema. If the ids are of another registry, change schemaRegistry.url. "
                    "To read these records as corrupt ones, set schemaRegistry.max.missing.ids to more than "
                    f"{self._most}"
                )
        return schemas


def drop_oldest(kept: dict[int, Any], most: int) -> None:
    """Remove the first entries of a dictionary until it has at most `most`."""
    if len(kept) > most:
        for each in list(kept)[:-most]:
            kept.pop(each, None)
