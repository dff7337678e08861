"""Creates, deletes and describes access control entries."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import Operation, SetAcls
from broker.metadata.store import MetadataStore
from broker.security.authorizer.authorizer import Authorizer
from broker.security.authorizer.filters import AclFilter
from broker.security.authorizer.model import AclBinding, AclEntry, Acls, ResourcePattern, is_principal
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import InvalidRequestError, KafkaError, KafkaStorageError, PolicyViolationError

logger = logging.getLogger(__name__)

MAX_CHANGES = 10_000
"""Entries or filters of one request, as in Apache Kafka's own controller."""
AT_ONCE = 500
"""The most entries that are created in one commit, so that other requests have their turn in between."""
LOOKED_AT_ONCE = 1000
"""The number of patterns that filters look at before other requests have their turn."""
ATTEMPTS = 20
"""The number of attempts of a deletion while others change the entries."""
SHOWN = 5

NameFault = Callable[[str], str | None]
"""Returns why the store cannot keep entries about a resource of a name; None if it can."""


class AclController:
    """Commits changes of the entries. Each change is in force on this broker when its method returns.

    Args:
        store: gets the changes.
        cache: is read for descriptions.
        name_fault: what the store refuses.
    """

    def __init__(self, store: MetadataStore, cache: MetadataCache, name_fault: NameFault = lambda name: None) -> None:
        self._store = store
        self._cache = cache
        self._name_fault = name_fault

    @property
    def acls(self) -> Acls:
        """All entries, as they are now."""
        return self._cache.image.acls

    async def create(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Create entries; return None for each, or the error that prevented it. Those that exist stay as they are."""
        if len(bindings) > MAX_CHANGES:
            return [PolicyViolationError(f"A request may create at most {MAX_CHANGES} ACLs.")] * len(bindings)
        results: list[KafkaError | None] = []
        for first in range(0, len(bindings), AT_ONCE):
            results += await self._create_some(bindings[first : first + AT_ONCE])
            await asyncio.sleep(0)
        return results

    async def _create_some(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        results: list[KafkaError | None] = [self._fault(each) for each in bindings]
        wanted: dict[ResourcePattern, set[AclEntry]] = defaultdict(set)
        for binding, error in zip(bindings, results, strict=True):
            if error is None:
                wanted[binding.pattern].add(binding.entry)

        def decide(state: ClusterState) -> list[Operation]:
            return [
                SetAcls(pattern, after)
                for pattern, entries in wanted.items()
                if (after := (before := state.acls.get(pattern, frozenset())) | entries) != before
            ]

        if wanted:
            try:
                await self._store.commit(decide)
            except (OSError, KafkaError) as error:
                failed = _failed(error)
                return [failed if each is None else each for each in results]
            _tell("created", ((pattern, entry) for pattern, entries in wanted.items() for entry in entries))
        return results

    def _fault(self, binding: AclBinding) -> InvalidRequestError | None:
        """Return why there can be no such entry."""
        (kind, pattern_type, name), (principal, host, operation, permission) = binding
        if AclResourceType.ANY is kind or AclOperation.ANY is operation or AclPermission.ANY is permission:
            return InvalidRequestError("An ACL must name a resource type, an operation and a permission; ANY is none")
        if pattern_type not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
            return InvalidRequestError("The pattern type of an ACL must be LITERAL or PREFIXED")
        if kind is AclResourceType.CLUSTER and name != CLUSTER_NAME:
            return InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if not name:
            return InvalidRequestError("Invalid empty resource name")
        if not is_principal(principal):
            return InvalidRequestError(f"The principal {principal} is not in the form Type:name, such as User:alice")
        if not host:
            return InvalidRequestError("The host of an ACL must be an IP address, or * for all")
        fault = self._name_fault(name)
        return None if fault is None else InvalidRequestError(f"ACL binding contains invalid resource name: {fault}")

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Delete the entries that filters select, all or none; return those of each filter.

        An entry that several filters select is among those of the first only, as with Kafka's `AclAuthorizer`.

        Raises:
            KafkaError: nothing is deleted, or it is not known what.
        """
        if len(filters) > MAX_CHANGES:
            raise PolicyViolationError(f"A request may have at most {MAX_CHANGES} filters of ACLs.")
        deleted: dict[AclBinding, int] = {}
        for attempt in range(ATTEMPTS):
            acls = self._store.state.acls
            gone = await _selected(filters, acls, deleted)
            try:
                await self._store.commit(partial(_deletions, acls, gone))
                break
            except _ChangedError:
                # By another request meanwhile, or by another broker. What was deleted before that stays deleted.
                if attempt == ATTEMPTS - 1:
                    raise KafkaStorageError("The ACLs are changed by others all the time") from None
            except (OSError, KafkaError) as error:
                raise _failed(error) from error
        results: list[list[AclBinding]] = [[] for _ in filters]
        for binding, number in deleted.items():
            results[number].append(binding)
        if deleted:
            _tell("deleted", deleted)
        return results


class _ChangedError(Exception):
    """The entries have changed since it was looked up what filters select."""


async def _selected(
    filters: Sequence[AclFilter], acls: Acls, deleted: dict[AclBinding, int]
) -> dict[ResourcePattern, set[AclEntry]]:
    """Return the entries that filters select; note each in `deleted`, with the number of the first such filter.

    Other requests have their turn in between: thousands of filters may each look at thousands of patterns.
    """
    gone: dict[ResourcePattern, set[AclEntry]] = defaultdict(set)
    looked_at = 0
    for number, wanted in enumerate(filters):
        for pattern, present in wanted.candidates(acls):
            looked_at += 1
            if looked_at % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            entries = wanted.picked(pattern, present)
            if entries:
                gone[pattern] |= entries
                for entry in entries:
                    deleted.setdefault(AclBinding(pattern, entry), number)
    return gone


def _deletions(acls: Acls, gone: Mapping[ResourcePattern, set[AclEntry]], state: ClusterState) -> list[Operation]:
    if state.acls is not acls:
        raise _ChangedError
    return [SetAcls(pattern, acls[pattern] - entries) for pattern, entries in gone.items()]


def follow(authorizer: Authorizer) -> Callable[[ClusterState, Sequence[Operation]], None]:
    """Return a listener of a metadata store that puts changes of entries in force."""

    def publish(state: ClusterState, operations: Sequence[Operation]) -> None:
        changes = [(each.pattern, each.entries) for each in operations if isinstance(each, SetAcls)]
        if changes:
            authorizer.change(changes)

    return publish


def _failed(error: OSError | KafkaError) -> KafkaError:
    return error if isinstance(error, KafkaError) else KafkaStorageError(f"The ACLs cannot be stored: {error}")


def _tell(what: str, bindings: Iterable[tuple[ResourcePattern, AclEntry]]) -> None:
    """Log what has changed; only the first few entries if there are many."""
    found = list(bindings)
    first = [
        f"{entry.permission.title} {entry.principal!r} from {entry.host!r} {entry.operation.title} on {str(pattern)!r}"
        for pattern, entry in found[:SHOWN]
    ]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    logger.info("ACLs %s: %s%s", what, "; ".join(first), more)
