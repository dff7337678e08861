"""Altering and describing the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import SetClientQuota
from broker.metadata.store import MetadataStore
from broker.net.sockets.network import Network
from broker.quota.client import ClientQuotas
from broker.quota.connections import ConnectionRates, is_address
from broker.quota.entities import QuotaEntity, quota_filter
from kafkalog.protocol.errors import InvalidRequestError, KafkaError, KafkaStorageError, PolicyViolationError

logger = logging.getLogger(__name__)

Changes = dict[str, float | None]
"""The new values by key; None removes the key."""
MAX_ALTERATIONS = 10_000
"""Entities that one request may alter, as in Apache Kafka's own controller."""
ALTERATIONS_A_TURN = 500
"""The number of alterations that are checked before other requests get their turn."""
MAX_UNKNOWN_HOSTS = 20
"""The number of hosts in one request whose addresses may have to be looked up."""


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Changes of one entity, which `parts` name by (type, name); a change to None removes the key."""

    parts: Sequence[tuple[str, str | None]]
    changes: Sequence[tuple[str, float | None]]


class QuotaController:
    """Alters and describes quotas, and puts them into force when `ConfigPublisher` says that they changed.

    Args:
        network: looks up the addresses of hosts.
        store: gets the changes.
        cache: is read for descriptions, and for the quotas that are to be in force.
        quotas, rates: measure what clients use.
    """

    def __init__(
        self,
        network: Network,
        store: MetadataStore,
        cache: MetadataCache,
        quotas: ClientQuotas,
        rates: ConnectionRates,
    ) -> None:
        self._store = store
        self._cache = cache
        self._quotas = quotas
        self._rates = rates
        self._network = network
        self._addresses: dict[str, str] = {}
        """The addresses of the hosts named by quotas."""
        self._committing: dict[str, str] = {}
        """The addresses of hosts whose quotas are being committed."""

    async def look_up_hosts(self) -> None:
        """Look up the addresses of all hosts named by quotas, and put these quotas into force."""
        await self.look_up(self._hosts())

    async def look_up(self, hosts: Set[str]) -> None:
        """Look up the addresses of these hosts, and put their quotas into force."""
        if not hosts:
            return
        found = await self._network.addresses_of(hosts)
        # Only now is the present dictionary read: a commit may have replaced it during the look-up.
        self._addresses = self._addresses | found
        for host in hosts - self._addresses.keys():
            logger.warning("The address of %s is not known: its quota of connections is not in force", host)
        self.install()

    def install(self) -> None:
        """Put the registered quotas into force, except those of hosts whose addresses are not known yet."""
        quotas = self._cache.image.client_quotas
        hosts = self._hosts()
        known = self._addresses | self._committing
        self._addresses = {host: address for host, address in known.items() if host in hosts}
        self._quotas.update(quotas)
        self._rates.update(quotas, self._addresses)

    def unknown_hosts(self, entities: Iterable[QuotaEntity]) -> set[str]:
        """Return those of the host names with quotas that `entities` name and whose addresses are not known."""
        return _hosts_in(entities) & self._hosts() - self._addresses.keys()

    def _hosts(self) -> set[str]:
        """Return the host names (not addresses) that have quotas."""
        return _hosts_in(self._cache.image.client_quotas)

    def describe(
        self, components: Iterable[tuple[str, int, str | None]], *, strict: bool
    ) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """Return the entities that a filter of (type, match, name) matches (`quota_filter`), with their values by key.

        Raises:
            InvalidRequestError: a type is repeated or empty, a match is unknown or does not fit its name, or the types
                cannot be combined.
            UnsupportedVersionError: a type is unknown.
        """
        names = quota_filter(components, strict=strict)
        return [(entity, values) for entity, values in self._cache.image.client_quotas.items() if names(entity)]

    async def alter(self, alterations: Sequence[QuotaAlteration], *, validate_only: bool) -> list[KafkaError | None]:
        """Commit all valid alterations at once; return None for each, or the error that prevented it."""
        if len(alterations) > MAX_ALTERATIONS:
            text = "Unable to perform excessively large batch operation: a request may alter at most"
            return [PolicyViolationError(f"{text} {MAX_ALTERATIONS} entities.")] * len(alterations)
        results: list[KafkaError | None] = []
        valid: dict[QuotaEntity, tuple[int, Changes]] = {}
        for number, alteration in enumerate(alterations):
            try:
                entity = QuotaEntity.of(alteration.parts)
                changes = _checked(entity, alteration.changes)
                if entity in valid:
                    raise InvalidRequestError(f"Ignoring duplicate entity {entity}")
                valid[entity] = number, changes
                results.append(None)
            except KafkaError as error:
                results.append(error)
            if number % ALTERATIONS_A_TURN == ALTERATIONS_A_TURN - 1:
                await asyncio.sleep(0)
        addresses = await self._check_hosts(valid, results)
        if validate_only or not valid:
            return results
        # The quotas are put into force as part of the commit.
        self._committing |= addresses
        try:
            await self._store.commit(lambda state: _altered(state, valid))
        except (OSError, KafkaError) as error:
            text = f"The cluster's registry cannot be stored: {error}"
            for number, _ in valid.values():
                results[number] = error if isinstance(error, KafkaError) else KafkaStorageError(text)
            return results
        finally:
            for host in addresses:
                self._committing.pop(host, None)
        logger.info("quotas altered: %s", _told(valid))
        return results

    async def _check_hosts(
        self, valid: dict[QuotaEntity, tuple[int, Changes]], results: list[KafkaError | None]
    ) -> dict[str, str]:
        """Remove from `valid` alterations of hosts that have no address; return the addresses found.

        Hosts that already have quotas are not looked up again.
        """
        known = self._hosts()
        unknown = {
            entity.address: entity
            for entity, (_, changes) in valid.items()
            if entity.address is not None
            and not is_address(entity.address)
            and entity.address not in known
            and any(value is not None for value in changes.values())
        }
        asked = list(unknown)[:MAX_UNKNOWN_HOSTS]
        found = await self._network.addresses_of(asked) if asked else {}
        for host, entity in unknown.items():
            if host not in found:
                number, _ = valid.pop(entity)
                results[number] = InvalidRequestError(f"{host} is not a valid IP or resolvable host.")
        return found


def _hosts_in(entities: Iterable[QuotaEntity]) -> set[str]:
    names = (entity.address for entity in entities)
    return {name for name in names if name is not None and not is_address(name)}


def _altered(state: ClusterState, valid: Mapping[QuotaEntity, tuple[int, Changes]]) -> list[SetClientQuota]:
    operations = []
    for entity, (_, changes) in valid.items():
        present = state.client_quotas.get(entity, {})
        values = {key: value for key, value in {**present, **changes}.items() if value is not None}
        if values != present:
            operations.append(SetClientQuota(entity, values))
    return operations


def _told(valid: Mapping[QuotaEntity, tuple[int, Changes]]) -> str:
    """Describe the alterations for the log; only the first few if there are many."""
    first = [f"{entity} {changes}" for entity, (_, changes) in itertools.islice(valid.items(), 5)]
    return "; ".join(first) + (f"; and {len(valid) - 5} more" if len(valid) > 5 else "")


def _checked(entity: QuotaEntity, changes: Iterable[tuple[str, float | None]]) -> Changes:
    found: Changes = {}
    for key, value in changes:
        if key in found:
            raise InvalidRequestError(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        if value is not None:
            entity.check(key, value)
        found[key] = value
    return found
