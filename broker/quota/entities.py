"""Quota entities: a user, a client id, a client id of a user, an IP address, or the default of any of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from kafkalog.protocol.errors import InvalidRequestError, UnsupportedVersionError


class EntityType(StrEnum):
    """Kafka's `ClientQuotaEntity` types."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaKey(StrEnum):
    """The quota keys: bytes per second, percent of the event loop's time, mutations and connections per second."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


_TYPES = frozenset(map(str, EntityType))
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_FRACTION = 1e-6
"""The most by which a value may differ from a whole number where one is required; a client's double may be inexact."""
_OF_CLIENTS: dict[str, int | None] = {
    QuotaKey.PRODUCER_BYTE_RATE: MAX_LONG,
    QuotaKey.CONSUMER_BYTE_RATE: MAX_LONG,
    QuotaKey.REQUEST_PERCENTAGE: None,
    QuotaKey.CONTROLLER_MUTATION_RATE: None,
}
"""The keys of users and client ids, with the largest value of those that require whole numbers."""
_OF_ADDRESSES: dict[str, int | None] = {QuotaKey.CONNECTION_CREATION_RATE: MAX_INT}
_TYPE_NAMES = {MAX_INT: "an INT", MAX_LONG: "a LONG"}

Quotas = Mapping["QuotaEntity", Mapping[str, float]]
"""The quotas of a cluster: the values by key of each entity."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """An entity that has quotas.

    `parts` are pairs of type and name, sorted by type. The name None stands for the default of the type.
    """

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
        """Make an entity of its parts, given in any order.

        Raises:
            InvalidRequestError: there are no parts, a type is repeated or unknown, a name is empty, or the types cannot
                be combined.
        """
        found: dict[str, str | None] = {}
        for kind, name in parts:
            if kind in found:
                raise InvalidRequestError(f"Invalid client quota entity, duplicate entity entry {kind}")
            if kind not in _TYPES:
                raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
            if name == "":
                raise InvalidRequestError(f"Empty {kind} not supported")
            found[kind] = name
        if not found:
            raise InvalidRequestError("Invalid empty client quota entity")
        if EntityType.IP in found and len(found) > 1:
            raise InvalidRequestError(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        return cls(tuple(sorted(found.items())))

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return iter(self.parts)

    def __str__(self) -> str:
        return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in self.parts)

    @property
    def address(self) -> str | None:
        """The name of an entity of type ip; None for the default and for other types."""
        return dict(self.parts).get(EntityType.IP)

    def check(self, key: str, value: float) -> None:
        """Check that the entity can have `key`, and the key can have `value`.

        Raises:
            InvalidRequestError: one of them cannot.
        """
        keys = _OF_ADDRESSES if self.parts[0][0] == EntityType.IP else _OF_CLIENTS
        if key not in keys:
            raise InvalidRequestError(f"Invalid configuration key {key}")
        if math.isnan(value):
            raise InvalidRequestError(f"Quota {key} must be a number")
        if value <= 0:
            raise InvalidRequestError(f"Quota {key} must be greater than 0")
        largest = keys[key]
        if largest is None:
            if math.isinf(value):
                raise InvalidRequestError(f"Quota {key} must be a finite number")
            return
        if value > largest:
            raise InvalidRequestError(f"Proposed value for {key} is too large for {_TYPE_NAMES[largest]}.")
        if abs(math.floor(value + _FRACTION) - value) > _FRACTION:
            raise InvalidRequestError(f"{key} cannot be a fractional value.")


class Match(IntEnum):
    """The ways in which a filter component matches entities; the numbers are those of DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


def quota_filter(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """Make a predicate that matches the entities that every component of a filter matches.

    Args:
        components: triples of type, match and name.
        strict: whether entities with further types do not match.

    Raises:
        InvalidRequestError: a type is repeated or empty, a match is unknown or does not fit its name, or the types
            cannot be combined.
        UnsupportedVersionError: a type is unknown.
    """
    wanted: dict[str, tuple[Match, str | None]] = {}
    for kind, match, name in components:
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in wanted:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise UnsupportedVersionError(f"Unsupported entity type {kind}")
        wanted[kind] = _match(match, name), name
    if EntityType.IP in wanted and len(wanted) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )

    def names(entity: QuotaEntity) -> bool:
        parts = dict(entity.parts)
        if strict and len(parts) != len(wanted):
            return False
        return all(
            kind in parts and (match is Match.ANY or parts[kind] == name) for kind, (match, name) in wanted.items()
        )

    return names


def _match(match: int, name: str | None) -> Match:
    if match not in tuple(Match):
        raise InvalidRequestError(f"Unknown match type {match}")
    if match == Match.EXACT and name is None:
        raise InvalidRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match != Match.EXACT and name is not None:
        which = "MATCH_TYPE_DEFAULT" if match == Match.DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise InvalidRequestError(f"Request specified {which}, but also specified a match string.")
    return Match(match)
