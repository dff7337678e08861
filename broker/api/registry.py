"""The served APIs, their versions and handlers."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from broker.api.context import Request
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.generator import contains_records

Handler = Callable[[Request], Awaitable[None] | None]
"""Serves the request and ends it, at once or later; if it returns a coroutine, that runs as a task of the loop."""


@dataclass(frozen=True, slots=True)
class Api:
    """One served API with its version range, both ends included."""

    key: ApiKey
    request_type: Any
    min_version: int
    max_version: int
    handler: Handler
    has_records: bool
    """The request carries record batches, which stay in the connection's buffer."""
    members_only: bool = False
    """Brokers of a cluster ask it of each other: it is served to members, on the listener between them."""


_MODULES = (
    "versions", "authentication", "metadata", "offsets", "produce.produce", "fetch.fetch",
    "groups.coordinators", "groups.groups", "groups.group_offsets", "groups.consumer_groups",
    "transactions.producer_ids", "transactions.transactions", "transactions.transaction_admin",
    "admin.topics", "admin.configs", "admin.log_dirs", "admin.replica_admin", "admin.client_quotas",
    "admin.scram_users", "admin.delegation_tokens", "admin.acls",
    "cluster.control", "cluster.controller",
)  # fmt: skip


def served_apis() -> dict[int, Api]:
    """Return every served API by its key.

    Each handler module lists its own in `HANDLERS`: request class to handler. Those that brokers of a cluster ask of
    each other stand in `MEMBER_HANDLERS`.
    """
    apis: dict[int, Api] = {}
    for name in _MODULES:
        module = importlib.import_module(f"broker.api.{name}")
        own: dict[Any, Handler] = getattr(module, "HANDLERS", {})
        between: dict[Any, Handler] = getattr(module, "MEMBER_HANDLERS", {})
        for request_type, handler in (*own.items(), *between.items()):
            key = ApiKey(request_type.api_key)
            if key in apis:
                raise ValueError(f"{key.name} is served by two handlers")
            apis[key] = Api(
                key,
                request_type,
                request_type.min_version,
                request_type.max_version,
                handler,
                contains_records(request_type),
                request_type in between,
            )
    return dict(sorted(apis.items()))
