"""Delegation tokens: credentials for a time, which clients of one owner log in with by SCRAM (KIP-48, KIP-373).

A token has an id and an HMAC. A client logs in with `sasl.mechanism=SCRAM-SHA-256` or `SCRAM-SHA-512` and

    org.apache.kafka.common.security.scram.ScramLoginModule required
        username="<the id>" password="<the HMAC in Base64>" tokenauth="true";
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from kafkalog.client.admin.connected import Connected
from kafkalog.client.errors import ClientError, about
from kafkalog.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkalog.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkalog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkalog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

_BROKERS_DEFAULT = -1
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.2
"""The first and the longest pause between two questions to a broker that does not know a token yet."""
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Principal(NamedTuple):
    """A principal, such as `User:alice`, the owner of a token."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `User:alice`.

        Raises:
            ValueError: The text has no type or no name.
        """
        kind, _, name = text.partition(":")
        if not kind or not name:
            raise ValueError(f"{text!r} is no principal; expected TYPE:NAME, such as User:alice")
        return cls(kind, name)


@dataclass(frozen=True)
class DelegationToken:
    """A token. Times are in ms since 1970."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    requester: Principal | None
    """The principal that asked for the token; None where the broker is too old to say so."""
    issued_at: int
    expires_at: int
    max_timestamp: int
    """The time that no renewal goes beyond."""
    renewers: tuple[Principal, ...] = ()

    @property
    def password(self) -> str:
        """The password that clients log in with."""
        return b64encode(self.hmac).decode()

    @property
    def jaas(self) -> str:
        """The value of `sasl.jaas.config` that clients log in with; it contains the password."""
        return f'{_MODULE} required username="{self.token_id}" password="{self.password}" tokenauth="true";'


class DelegationTokenAdmin(Connected):
    """The part of `Admin` that administers delegation tokens; also usable by itself.

    Brokers refuse it on connections without authentication, and on those that a delegation token has authenticated.
    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    def create(
        self,
        *,
        owner: Principal | None = None,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = _BROKERS_DEFAULT,
    ) -> DelegationToken:
        """Make a token.

        Args:
            owner: The owner of the token; by default the user of this client.
            renewers: Other users who may renew it.
            max_lifetime_ms: The longest life with all renewals; -1 for what the broker allows.

        Raises:
            DelegationTokenAuthDisabledError: The broker has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: The connection does not allow it.
            DelegationTokenAuthorizationFailedError: This user may not make tokens for `owner`.
            InvalidPrincipalTypeError: A principal's type is not `User`.
            UnsupportedVersionError: The broker is too old for tokens, or for tokens of another owner.
        """
        renewing = tuple(renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(principal_type=each.type, principal_name=each.name) for each in renewing],
            max_lifetime_ms=max_lifetime_ms,
        )
        answer = self._ask(request, "a delegation token")
        requester = Principal(answer.token_requester_principal_type, answer.token_requester_principal_name)
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            Principal(answer.principal_type, answer.principal_name),
            requester if requester.name else None,
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            renewing,
        )

    def describe(self, owners: Iterable[Principal] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners that the client may see; of all owners, where `owners` is None.

        Raises:
            DelegationTokenAuthDisabledError: The broker has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: The connection does not allow it.
        """
        named = None if owners is None else list(owners)
        request = DescribeDelegationTokenRequest(
            owners=None
            if named is None
            else [DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name) for each in named]
        )
        return [_described(each) for each in self._ask(request, "delegation tokens").tokens]

    def await_known(self, token: DelegationToken, timeout: float) -> bool:
        """Wait until every broker knows a new token; return whether all do within `timeout` seconds.

        With KRaft, the controller makes tokens, and brokers learn of them a moment later. One that does not know a
        token yet refuses its clients.

        Raises:
            DelegationTokenRequestNotAllowedError: The connection does not allow it.
            ClientError: A broker could not be asked. The others were.
        """
        deadline = time.monotonic() + timeout
        owner = DescribeDelegationTokenOwner(principal_type=token.owner.type, principal_name=token.owner.name)
        request = DescribeDelegationTokenRequest(owners=[owner])
        left = list(self.cluster.metadata([], refresh=True, deadline=deadline).brokers)
        failure: ClientError | None = None
        pause = _PAUSE_S
        while True:
            for node_id in list(left):
                # A silent broker takes no more than its share.
                share = max((deadline - time.monotonic()) / len(left), _PAUSE_S)
                try:
                    response = self.cluster.request_to(
                        node_id, request, timeout=min(share, self.cluster.config.request_timeout)
                    )
                except ClientError as error:
                    left.remove(node_id)
                    failure = error
                    continue
                if response.error_code:
                    raise about(response.error_code, "delegation tokens")
                if any(each.token_id == token.token_id for each in response.tokens):
                    left.remove(node_id)
            if not left or time.monotonic() >= deadline:
                break
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        if failure is not None:
            raise failure
        return not left

    def renew(self, hmac: bytes, period_ms: int = _BROKERS_DEFAULT) -> int:
        """Let a token last for `period_ms` from now on; return when it ends, in ms since 1970.

        Args:
            hmac: The token's HMAC.
            period_ms: How long; -1 for the broker's `delegation.token.expiry.time.ms`.

        Raises:
            DelegationTokenNotFoundError: There is no such token.
            DelegationTokenOwnerMismatchError: This user is neither its owner nor one of its renewers.
            DelegationTokenExpiredError: It has ended.
        """
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        return int(self._ask(request, "the delegation token").expiry_timestamp_ms)

    def expire(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token end in `period_ms` from now on, or at once where that is negative; return when it ends.

        Raises:
            DelegationTokenNotFoundError: There is no such token.
            DelegationTokenOwnerMismatchError: This user is neither its owner nor one of its renewers.
            DelegationTokenExpiredError: It has ended.
        """
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        return int(self._ask(request, "the delegation token").expiry_timestamp_ms)

    def _ask(self, request: Any, what: str) -> Any:
        response = self.cluster.request_any(request)
        if response.error_code:
            raise about(response.error_code, what)
        return response


def _described(found: Any) -> DelegationToken:
    requester = Principal(found.token_requester_principal_type, found.token_requester_principal_name)
    return DelegationToken(
        found.token_id,
        bytes(found.hmac),
        Principal(found.principal_type, found.principal_name),
        requester if requester.name else None,
        found.issue_timestamp,
        found.expiry_timestamp,
        found.max_timestamp,
        tuple(Principal(each.principal_type, each.principal_name) for each in found.renewers),
    )
