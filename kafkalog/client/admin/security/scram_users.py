"""SCRAM credentials of users: who may log in by SCRAM, and with which password (KIP-554).

The password does not leave this process: brokers get it salted, and keep keys that are derived from that.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkalog.client.admin.connected import Connected
from kafkalog.client.errors import about, left_out
from kafkalog.client.retry import Retry
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkalog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kafkalog.protocol.scram import DEFAULT_ITERATIONS, SALT_BYTES, ScramMechanism


@dataclass(frozen=True)
class ScramPassword:
    """A password of a user for one mechanism."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = DEFAULT_ITERATIONS
    """The cost of trying passwords: 4096 to 16384."""


class ScramUserAdmin(Connected):
    """The part of `Admin` that administers SCRAM credentials; also usable by itself.

    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    def describe(self, users: Collection[str] | None = None) -> dict[str, dict[ScramMechanism, int]]:
        """Return the mechanisms for which users have credentials, with the iterations.

        Args:
            users: The users; None for all that have credentials.

        Raises:
            ResourceNotFoundError: A user has no credentials.
            UnsupportedVersionError: The broker is older than 2.7.
        """
        if users is not None and not users:
            return {}
        named = None if users is None else [UserName(name=user) for user in dict.fromkeys(users)]
        response: Any = self.cluster.request_any(DescribeUserScramCredentialsRequest(users=named))
        if response.error_code:
            raise about(response.error_code, "SCRAM credentials", response.error_message)
        found: dict[str, dict[ScramMechanism, int]] = {}
        for result in response.results:
            if result.error_code:
                raise about(result.error_code, f"user {result.user}", result.error_message)
            known = {ScramMechanism.of_type(each.mechanism): each.iterations for each in result.credential_infos}
            found[result.user] = {mechanism: count for mechanism, count in known.items() if mechanism is not None}
        return found

    def alter(
        self, passwords: Iterable[ScramPassword] = (), deleted: Iterable[tuple[str, ScramMechanism]] = ()
    ) -> None:
        """Set passwords, and delete credentials of users for mechanisms. All changes of one user are made, or none.

        Raises:
            ResourceNotFoundError: What is to be deleted does not exist.
            UnacceptableCredentialError: The name is empty, or the iterations are too few or too many.
            UnsupportedVersionError: The broker is older than 2.7.
        """
        upsertions = [_upsertion(each) for each in passwords]
        deletions = [ScramCredentialDeletion(name=user, mechanism=mechanism.type) for user, mechanism in deleted]
        if not upsertions and not deletions:
            return
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)

        def attempt(retry: Retry) -> Sequence[Any]:
            response: Any = self.cluster.request_controller(request, deadline=retry.deadline)
            moved = next((each for each in response.results if each.error_code == ErrorCode.NOT_CONTROLLER), None)
            if moved is not None:
                raise about(moved.error_code, f"user {moved.user}", moved.error_message)
            results: Sequence[Any] = response.results
            return results

        results = self.cluster.on_controller(attempt)
        for result in results:
            if result.error_code:
                raise about(result.error_code, f"user {result.user}", result.error_message)
        asked = {each.name for each in upsertions} | {each.name for each in deletions}
        missing = asked - {each.user for each in results}
        if missing:
            raise left_out(f"user {min(missing)}")


def _upsertion(given: ScramPassword) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    return ScramCredentialUpsertion(
        name=given.user,
        mechanism=given.mechanism.type,
        iterations=given.iterations,
        salt=salt,
        salted_password=given.mechanism.salted_password(given.password, salt, max(1, given.iterations)),
    )
