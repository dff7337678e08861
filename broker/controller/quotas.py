"""Altering and describing the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from broker.metadata.model import ClusterState
from broker.metadata.store import MetadataStore
from broker.quota.client import ClientQuotas
from broker.quota.connections import ConnectionRates, is_address
from broker.quota.entities import QuotaEntity, quota_filter
from kafkalog.protocol.errors import InvalidRequestError, KafkaError, KafkaStorageError

logger = logging.getLogger("kafkalog.broker.controller")


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Changes of one entity, named by ``parts`` of (type, name): values by key, None to remove one."""

    parts: Sequence[tuple[str, str | None]]
    changes: Sequence[tuple[str, float | None]]


class QuotaController:
    """See the module. Puts what the registry says in force."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, store: MetadataStore, quotas: ClientQuotas, rates: ConnectionRates
    ) -> None:
        self._loop = loop
        self._store = store
        self._quotas = quotas
        self._rates = rates
        self._addresses: dict[str, str] = {}
        """Of hosts that quotas name."""

    async def look_up_hosts(self) -> None:
        """Find the addresses of hosts that quotas name, and put those quotas in force, too."""
        quotas = self._store.state.client_quotas
        hosts = [entity.address for entity in quotas if entity.address is not None and not is_address(entity.address)]
        if hosts:
            unknown = await self._look_up(hosts)
            for host in unknown:
                logger.warning("The address of %s is not known: its quota of connections is not in force", host)
            self.install()

    def install(self) -> None:
        """Put the registered quotas in force, but for those of hosts whose addresses are not known yet."""
        quotas = self._store.state.client_quotas
        self._quotas.update(quotas)
        self._rates.update(quotas, self._addresses)

    def describe(
        self, components: Iterable[tuple[str, int, str | None]], *, strict: bool
    ) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that a filter of (type, match, name) names (`quota_filter`), with their values by key.

        Raises:
            InvalidRequestError, UnsupportedVersionError
        """
        names = quota_filter(components, strict=strict)
        return [(entity, values) for entity, values in self._store.state.client_quotas.items() if names(entity)]

    async def alter(self, alterations: Sequence[QuotaAlteration], *, validate_only: bool) -> list[KafkaError | None]:
        """Carry out the alterations that are valid, in one commit; for each None, or why it is not carried out."""
        results: list[KafkaError | None] = []
        valid: list[tuple[int, QuotaEntity, dict[str, float | None]]] = []
        seen: set[QuotaEntity] = set()
        unknown = await self._look_up(
            name for alteration in alterations for kind, name in alteration.parts if kind == "ip" and name
        )
        for number, alteration in enumerate(alterations):
            try:
                entity = QuotaEntity.of(alteration.parts)
                if entity.address in unknown:
                    raise InvalidRequestError(f"{entity.address} is not a valid IP or resolvable host.")
                changes = _checked(entity, alteration.changes)
                if entity in seen:
                    raise InvalidRequestError(f"Ignoring duplicate entity {entity}")
            except KafkaError as error:
                results.append(error)
                continue
            seen.add(entity)
            valid.append((number, entity, changes))
            results.append(None)
        if validate_only or not valid:
            return results

        def change(state: ClusterState) -> ClusterState:
            quotas = dict(state.client_quotas)
            for _, entity, changes in valid:
                values = {**quotas.pop(entity, {}), **changes}
                kept = {key: value for key, value in values.items() if value is not None}
                if kept:
                    quotas[entity] = kept
            return state if quotas == state.client_quotas else replace(state, client_quotas=quotas)

        try:
            await self._store.commit(change)
        except OSError as error:
            for number, _, _ in valid:
                results[number] = KafkaStorageError(f"The cluster's registry cannot be stored: {error}")
            return results
        for _, entity, changes in valid:
            logger.info("quotas of %s: %s", entity, changes)
        self.install()
        return results

    async def _look_up(self, names: Iterable[str]) -> set[str]:
        """Find the addresses of those names that are hosts'; which have none. On a worker: it may take long."""
        hosts = [name for name in dict.fromkeys(names) if not is_address(name)]
        found = await self._loop.run_in_executor(None, _addresses_of, hosts) if hosts else {}
        self._addresses.update(found)
        return {host for host in hosts if host not in found}


def _checked(entity: QuotaEntity, changes: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for key, value in changes:
        if key in found:
            raise InvalidRequestError(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        if value is not None:
            entity.check(key, value)
        found[key] = value
    return found


def _addresses_of(hosts: Iterable[str]) -> dict[str, str]:
    found = {}
    for host in hosts:
        try:
            found[host] = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
        except (OSError, UnicodeError):
            continue
    return found
