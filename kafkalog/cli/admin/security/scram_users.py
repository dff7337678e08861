"""The part of `kafkalog configs` that is about SCRAM credentials of users, which stand beside their quotas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import UsageError, print_json

if TYPE_CHECKING:
    from kafkalog.client.config import ClientConfig

PREFIX = "SCRAM-SHA-"
"""The beginning of the names of credentials, which are altered among the quotas of users."""
_FORM = re.compile(r"(?:iterations=(?P<iterations>[0-9]{1,9}),)?password=(?P<password>.+)", re.DOTALL)


def describe(config: ClientConfig, user: str | None, *, as_json: bool) -> None:
    """Print which credentials a user has, or all users have, as kafka-configs.sh does."""
    from kafkalog.client.admin.security.scram_users import ScramUserAdmin
    from kafkalog.protocol.errors import ResourceNotFoundError, UnsupportedVersionError

    with ScramUserAdmin(config) as admin:
        try:
            found = admin.describe(None if user is None else [user])
        except (ResourceNotFoundError, UnsupportedVersionError):
            # The user has quotas only, or the broker is older than credentials in requests.
            return
    for name, credentials in sorted(found.items()):
        if as_json:
            values = {mechanism.value: {"iterations": count} for mechanism, count in credentials.items()}
            print_json({"entity": {"user": name}, "scram": values})
        else:
            shown = ", ".join(f"{mechanism.value}=iterations={count}" for mechanism, count in credentials.items())
            print(f"SCRAM credential configs for user-principal '{name}' are {shown}")


def alter(config: ClientConfig, user: str, added: dict[str, str], deleted: Sequence[str]) -> None:
    """Set and delete credentials of a user.

    Raises:
        UsageError: A credential cannot be made of what is given. The text does not show it.
    """
    from kafkalog.client.admin.security.scram_users import ScramPassword, ScramUserAdmin
    from kafkalog.protocol.scram import DEFAULT_ITERATIONS, ScramMechanism

    def mechanism(key: str) -> ScramMechanism:
        found = ScramMechanism.of_name(key.upper())
        if found is None:
            known = " and ".join(each.value for each in ScramMechanism)
            raise UsageError(f"{key}: credentials are for {known}")
        return found

    passwords = []
    for key, text in added.items():
        # In a file of properties the brackets are a part of the value.
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        form = _FORM.fullmatch(inner)
        if form is None:
            raise UsageError(f"--add-config {key}: expected {key}=[password=…] or {key}=[iterations=8192,password=…]")
        iterations = int(form["iterations"] or DEFAULT_ITERATIONS)
        passwords.append(ScramPassword(user, mechanism(key), form["password"], iterations))
    with ScramUserAdmin(config) as admin:
        admin.alter(passwords, [(user, mechanism(key)) for key in deleted])
