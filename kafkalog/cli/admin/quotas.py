"""The part of `kafkalog configs` that is about users, client ids and addresses: their quotas, and logins of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.cli.admin.security import scram_users
from kafkalog.cli.shared.client_options import UsageError, print_json

if TYPE_CHECKING:
    from kafkalog.client.config import ClientConfig

USERS = "users"
TYPES = {USERS: "user", "clients": "client-id", "ips": "ip"}
"""The types of entities: the options' names and the protocol's."""
Entities = Sequence[tuple[str, str | None]]
"""Types and names from the options: `""` is the default of the type, None means all of it."""


def describe(config: ClientConfig, entities: Entities, *, as_json: bool) -> None:
    """Print the quotas of the named entities, and the credentials of users, as kafka-configs.sh does."""
    from kafkalog.client.admin.quotas import ANY, QuotaAdmin, entity_text

    wanted = {TYPES[kind]: ANY if name is None else name or None for kind, name in entities}
    with QuotaAdmin(config) as admin:
        found = admin.describe(wanted, strict=True)
    for entity, values in found:
        if as_json:
            print_json({"entity": entity, "values": values})
        else:
            print(f"Quota configs for {entity_text(entity)} are {', '.join(f'{k}={v}' for k, v in values.items())}")
    if [kind for kind, _ in entities] == [USERS] and entities[0][1] != "":
        scram_users.describe(config, entities[0][1], as_json=as_json)


def alter(config: ClientConfig, entities: Entities, added: dict[str, str], deleted: Sequence[str]) -> None:
    """Set and delete quotas of one entity, and credentials of a user.

    Raises:
        UsageError: A quota is no number, or a user's credentials cannot be made. The text does not show the value.
        InvalidConfigError: A quota that is to be deleted is not set.
    """
    from kafkalog.client.admin.quotas import QuotaAdmin
    from kafkalog.protocol.errors import InvalidConfigError

    credentials = [key for key in (*added, *deleted) if key.upper().startswith(scram_users.PREFIX)]
    if credentials:
        if [kind for kind, _ in entities] != [USERS] or not entities[0][1]:
            raise UsageError(f"{credentials[0]}: only a user by name has credentials")
        if len(credentials) < len(added) + len(deleted):
            # Kafka's command refuses that, too: they are two requests, of which one could fail.
            raise UsageError("credentials and quotas cannot be altered in one command: use two")
        scram_users.alter(config, entities[0][1], added, deleted)
        return
    entity = {TYPES[kind]: name or None for kind, name in entities}
    values: dict[str, float | None] = {key: _number(key, value) for key, value in added.items()}
    with QuotaAdmin(config) as admin:
        now = next((quota.values for quota in admin.describe(entity, strict=True)), {})
        unset = [key for key in deleted if key not in now]
        if unset:
            raise InvalidConfigError(f"Invalid config(s): {','.join(unset)}")
        admin.alter(entity, {**values, **dict.fromkeys(deleted)})


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        # The value may be a password.
        raise UsageError(f"--add-config {key}: a quota is a number") from None
