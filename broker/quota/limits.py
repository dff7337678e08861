"""Finds the quota that applies to a client.

Several quotas may match a client. For each key, the first existing one applies, in this order: the client id of the
user, any client id of the user, the user, the client id of any user, any client id of any user, any user, the client
id, any client id. The quota's name decides who shares it: a quota of a user is shared by all of that user's client ids,
a quota of any user applies to each user separately, and a quota of any client id to each client id separately.

Source: Kafka's documentation, "Design: Quotas"; KIP-55.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.quota.entities import EntityType, QuotaEntity, Quotas

_ABSENT = object()
Share = tuple[str, str]
"""The clients that share a quota: user and client id, where `""` means any."""


class Limit(NamedTuple):
    """The limit of a client: the share that it belongs to, and how much that may use (None: no limit)."""

    share: Share
    value: float | None


class ClientLimits:
    """The quotas of one key for users and client ids."""

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._values = {_names(entity): values[key] for entity, values in quotas.items() if key in values}

    def __bool__(self) -> bool:
        return bool(self._values)

    def of(self, user: str, client_id: str) -> Limit:
        """Return the limit of `user` with `client_id`; if that is `""`, only quotas of users apply."""
        levels: tuple[tuple[object, object, Share], ...] = (
            (user, client_id, (user, client_id)),
            (user, None, (user, client_id)),
            (user, _ABSENT, (user, "")),
            (None, client_id, (user, client_id)),
            (None, None, (user, client_id)),
            (None, _ABSENT, (user, "")),
            (_ABSENT, client_id, ("", client_id)),
            (_ABSENT, None, ("", client_id)),
        )
        for owner, client, share in levels:
            if (client_id or client is _ABSENT) and (owner, client) in self._values:
                return Limit(share, self._values[owner, client])
        return Limit(("", client_id), None)


def _names(entity: QuotaEntity) -> tuple[object, object]:
    """Return the user and the client id of an entity: None for the default, `_ABSENT` if it has none."""
    parts: dict[str, object] = dict(entity.parts)
    return parts.get(EntityType.USER, _ABSENT), parts.get(EntityType.CLIENT_ID, _ABSENT)
