"""Delegation tokens (KIP-48): making, renewing and ending them, and finding them for logins."""

from __future__ import annotations

import asyncio
import logging
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import Operation, SetToken
from broker.metadata.store import MetadataStore
from broker.security.tokens import Token, hmac_of, password_of
from broker.system.workers import Workers
from kafkalog.protocol.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    KafkaStorageError,
    PolicyViolationError,
)
from kafkalog.protocol.scram import ScramCredential, ScramMechanism

logger = logging.getLogger(__name__)

MAX_RENEWERS = 10_000
"""The most renewers of a token. Apache Kafka has no limit but the size of a node in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The times that tokens last, in ms."""

    max_lifetime_ms: int
    expiry_ms: int
    """The time of one period, after which a token has to be renewed."""


class DelegationTokens:
    """The tokens of a cluster. Used on the event loop's thread only.

    Args:
        store: gets the changes.
        cache: is read for the rest.
        workers: compute the credentials of new tokens.
        secret: what all brokers of the cluster have in common (`delegation.token.secret.key`).
        limits: how long tokens last.
        now_ms: the wall clock.
        loop: the event loop.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        workers: Workers,
        secret: bytes,
        limits: TokenLimits,
        now_ms: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._store = store
        self._cache = cache
        self._workers = workers
        self._secret = secret
        self._limits = limits
        self._now_ms = now_ms
        self._loop = loop
        self._learning: asyncio.Task[None] | None = None
        self._credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        """The credentials of the tokens, as far as they are computed."""
        self._ids: dict[bytes, str] = {}
        """The ids of these tokens by their HMACs."""

    def publish(self, state: ClusterState, operations: Sequence[Operation]) -> None:
        """Learn of tokens that another broker has made or ended: a listener of a metadata store."""
        if any(isinstance(each, SetToken) for each in operations):
            self.start()

    def start(self) -> None:
        """Begin to learn of the tokens that there are."""
        before = self._learning

        async def learn() -> None:
            if before is not None:
                await asyncio.gather(before, return_exceptions=True)
            await self.learn()

        self._learning = self._loop.create_task(learn())

    async def stop(self) -> None:
        """Learn no more."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)

    # -- logins

    def find(self, mechanism: ScramMechanism, token_id: str) -> tuple[ScramCredential, Token] | None:
        """Return the credential of a token and the token; None if there is none that can be used."""
        token = self._cache.image.tokens.get(token_id)
        credential = self._credentials.get(token_id, {}).get(mechanism)
        if token is None or credential is None or token.is_over(self._now_ms()):
            return None
        return credential, token

    async def learn(self) -> None:
        """Compute the credentials of tokens that are new here, on workers, and forget those of others."""
        known = self._cache.image.tokens
        for gone in self._credentials.keys() - known.keys():
            del self._credentials[gone]
            self._ids.pop(hmac_of(gone, self._secret), None)
        for token_id in known.keys() - self._credentials.keys():
            made = await self._workers.run(_credentials, password_of(token_id, self._secret))
            if token_id in self._cache.image.tokens:
                self._credentials[token_id] = made
                self._ids[hmac_of(token_id, self._secret)] = token_id

    def hmac(self, token: Token) -> bytes:
        """Return the HMAC of a token."""
        return hmac_of(token.token_id, self._secret)

    # -- requests

    def all(self) -> Iterable[Token]:
        """Return all tokens."""
        return list(self._cache.image.tokens.values())

    async def create(self, owner: str, requester: str, renewers: Collection[str], lifetime_ms: int) -> Token:
        """Make a token.

        Raises:
            PolicyViolationError: it has too many renewers.
            KafkaError: it cannot be stored.
        """
        if len(renewers) > MAX_RENEWERS:
            raise PolicyViolationError(f"A delegation token may have at most {MAX_RENEWERS} renewers.")
        now = self._now_ms()
        token_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        most = self._limits.max_lifetime_ms
        max_ms = now + (most if lifetime_ms <= 0 else min(lifetime_ms, most))
        expires_ms = min(max_ms, now + self._limits.expiry_ms)
        token = Token(token_id, owner, requester, tuple(dict.fromkeys(renewers)), now, max_ms, expires_ms)
        await self._commit(lambda state: [SetToken(token_id, token)])
        await self.learn()
        logger.info("created the delegation token %s of %s", token_id, owner)
        return token

    async def renew(self, principal: str, given: bytes, period_ms: int) -> int:
        """Let a token last for a period from now on; return when it ends.

        Raises:
            KafkaError: there is no such token, it is over, the principal may not do that, or it cannot be stored.
        """
        period_ms = self._limits.expiry_ms if period_ms < 0 else period_ms
        return await self._change(principal, given, lambda now: now + period_ms)

    async def expire(self, principal: str, given: bytes, period_ms: int) -> int:
        """Let a token end after a period from now on, or at once if that is negative; return when it ends.

        Raises:
            KafkaError: as `renew` does.
        """
        if period_ms >= 0:
            return await self._change(principal, given, lambda now: now + period_ms)
        token = self._allowed(principal, given)
        await self._commit(lambda state: [SetToken(token.token_id, None)] if token.token_id in state.tokens else [])
        await self.learn()
        logger.info("ended the delegation token %s of %s", token.token_id, token.owner)
        return self._now_ms()

    async def remove_expired(self) -> None:
        """Remove tokens that are over."""

        def over(state: ClusterState) -> list[SetToken]:
            now = self._now_ms()
            return [SetToken(token_id, None) for token_id, token in state.tokens.items() if token.is_over(now)]

        if over(self._cache.image):
            await self._commit(over)
            await self.learn()

    async def _change(self, principal: str, given: bytes, ends: Callable[[int], int]) -> int:
        token = self._allowed(principal, given)
        now = self._now_ms()
        if token.is_over(now):
            raise DelegationTokenExpiredError
        changed = replace(token, expires_ms=min(token.max_ms, ends(now)))
        await self._commit(lambda state: [SetToken(token.token_id, changed)] if token.token_id in state.tokens else [])
        return changed.expires_ms

    def _allowed(self, principal: str, given: bytes) -> Token:
        token = self._cache.image.tokens.get(self._ids.get(given, ""))
        if token is None:
            raise DelegationTokenNotFoundError
        if not token.may_be_renewed_by(principal):
            raise DelegationTokenOwnerMismatchError
        return token

    async def _commit(self, decide: Callable[[ClusterState], list[SetToken]]) -> None:
        try:
            await self._store.commit(decide)
        except OSError as error:
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error


def _credentials(password: str) -> dict[ScramMechanism, ScramCredential]:
    """Return the credentials of a token's password. This takes milliseconds."""
    return {mechanism: ScramCredential.of_password(mechanism, password) for mechanism in ScramMechanism}
