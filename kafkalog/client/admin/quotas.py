"""Client quotas: limits for users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from kafkalog.client.admin.connected import Connected
from kafkalog.client.errors import about, left_out
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of an entity's names."""
_EXACT, _DEFAULT, _ANY = range(3)


class Every(Enum):
    """A name that stands for all entities of a type, and for the type's default."""

    NAME = "any name"


ANY: Final = Every.NAME
Name = str | None | Literal[Every.NAME]
"""A name; None stands for the default of the type, ANY for every name and the default."""


class ClientQuota(NamedTuple):
    """The quotas of an entity: its names by type (None is the default of the type), and its values by key."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotaAdmin(Connected):
    """The part of `Admin` that administers client quotas; also usable by itself.

    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    def describe(self, entity: Mapping[str, Name] | None = None, *, strict: bool = False) -> list[ClientQuota]:
        """Read the quotas of the entities that have these types and names; of all entities, where `entity` is None.

        Args:
            entity: A name for each type.
            strict: Leave out entities that have further types.

        Raises:
            InvalidRequestError: There is no such type of entity.
            UnsupportedVersionError: The broker is too old.
        """
        components = [_component(kind, name) for kind, name in (entity or {}).items()]
        response: Any = self.cluster.request_any(DescribeClientQuotasRequest(components=components, strict=strict))
        if response.error_code:
            raise about(response.error_code, "client quotas", response.error_message)
        return [
            ClientQuota(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries or ()
        ]

    def alter(
        self, entity: Mapping[str, str | None], values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set `values` of an entity, and remove those that are None; its other values stay as they are.

        Raises:
            InvalidRequestError: There is no such type of entity or key, or the key cannot have that value.
            TypeError: A value is not a number.
        """
        for key, value in values.items():
            if value is not None and not isinstance(value, int | float):
                raise TypeError(f"{key}={value!r}: a quota is a number, or None to remove it")
        parts = [AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        ops = [
            AlterClientQuotasOp(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ]
        request = AlterClientQuotasRequest(
            entries=[AlterClientQuotasEntry(entity=parts, ops=ops)], validate_only=validate_only
        )
        response: Any = self.cluster.request_any(request)
        what = entity_text(entity) or "client quotas"
        if not response.entries:
            raise left_out(what)
        for result in response.entries:
            if result.error_code:
                raise about(result.error_code, what, result.error_message)


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Name an entity as Kafka's tools do, for example `user-principal 'ann', the default client-id`."""
    kinds = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
    return ", ".join(
        f"the default {text}" if entity[kind] is None else f"{text} '{entity[kind]}'"
        for kind, text in kinds.items()
        if kind in entity
    )


def _component(kind: str, name: Name) -> DescribeClientQuotasComponent:
    if name is ANY:
        return DescribeClientQuotasComponent(entity_type=kind, match_type=_ANY, match=None)
    match = _DEFAULT if name is None else _EXACT
    return DescribeClientQuotasComponent(entity_type=kind, match_type=match, match=name)
