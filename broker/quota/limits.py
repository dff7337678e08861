"""Which quota holds for a client.

Several may name it; the first of these that there is holds, for each key by itself: the client id of the user, any
client id of the user, the user, the client id of any user, any client id of any user, any user, the client id, any
client id. Clients share a quota as it is named: one for a user is shared by all of that user's client ids, one for any
user is each user's own, and one for any client id is each client id's own.

Source: Kafka's documentation, "Design: Quotas"; KIP-55.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.quota.entities import EntityType, QuotaEntity, Quotas

_ABSENT = object()
Share = tuple[str, str]
"""Who has a quota together: user and client id, of which ``""`` means any."""


class Limit(NamedTuple):
    """What holds for a client: the share that it takes part in, and how much that may use (None: anything)."""

    share: Share
    value: float | None


class ClientLimits:
    """The quotas of one key for users and client ids."""

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._values = {_names(entity): values[key] for entity, values in quotas.items() if key in values}

    def __bool__(self) -> bool:
        return bool(self._values)

    def of(self, user: str, client_id: str) -> Limit:
        """The limit of requests of ``user`` with ``client_id``; where that is ``""`` quotas of users alone hold."""
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
    """User and client id of an entity: None is the default, and `_ABSENT` that it has none."""
    parts: dict[str, object] = dict(entity.parts)
    return parts.get(EntityType.USER, _ABSENT), parts.get(EntityType.CLIENT_ID, _ABSENT)
