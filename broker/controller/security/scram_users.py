"""The SCRAM credentials of users: altering, describing and finding them (KIP-554)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import SetScramCredentials
from broker.metadata.store import MetadataStore
from kafkalog.protocol.errors import (
    DuplicateResourceError,
    KafkaError,
    KafkaStorageError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from kafkalog.protocol.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism

logger = logging.getLogger(__name__)

SHOWN = 5
Credentials = Mapping[ScramMechanism, ScramCredential]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A credential that is to be deleted; `mechanism` is its number in the request."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A credential that is to be set; `mechanism` is its number in the request."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


class ScramUsers:
    """Alters and describes the credentials of users, and finds them for authentication.

    Args:
        store: gets the changes.
        cache: is read for the rest.
    """

    def __init__(self, store: MetadataStore, cache: MetadataCache) -> None:
        self._store = store
        self._cache = cache
        self._sampled: tuple[object, dict[ScramMechanism, ScramCredential]] = (None, {})
        """The credentials that the samples are of, and the samples."""

    def sample(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of the first user in the order of names, who is the same for all brokers."""
        known = self._cache.image.scram_credentials
        if self._sampled[0] is not known:
            found = {
                each: credential for user in sorted(known, reverse=True) for each, credential in known[user].items()
            }
            self._sampled = known, found
        return self._sampled[1].get(mechanism)

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user; None if there is none."""
        return self._cache.image.scram_credentials.get(user, {}).get(mechanism)

    def of(self, user: str) -> Credentials:
        """Return all credentials of a user; none if the user is not known."""
        return self._cache.image.scram_credentials.get(user, {})

    @property
    def names(self) -> Iterable[str]:
        """The users that have credentials."""
        return self._cache.image.scram_credentials.keys()

    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, KafkaError | None]:
        """Commit the alterations of all users without a fault at once.

        Returns:
            None for each user, or the error that prevented all of the user's alterations.
        """
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        results: dict[str, KafkaError | None] = {}
        results.update((each.user, _fault(each)) for each in changes if _fault(each) is not None)
        pairs = Counter((each.user, each.mechanism) for each in changes)
        for (user, _), count in pairs.items():
            if count > 1:
                text = "A user credential cannot be altered twice in the same request"
                results.setdefault(user, DuplicateResourceError(text))
        known = dict.fromkeys(user for user, _ in pairs if user not in results)
        made = {(each.user, each.mechanism): _credential(each) for each in upsertions if each.user in known}
        # A user's deletions are decided on the state that they are committed to.
        absent: dict[str, KafkaError | None] = {}

        def decide(state: ClusterState) -> list[SetScramCredentials]:
            absent.clear()
            after = {user: dict(state.scram_credentials.get(user, {})) for user in known}
            for each in deletions:
                mechanism = ScramMechanism.of_type(each.mechanism)
                if each.user in known and after[each.user].pop(mechanism, None) is None:  # type: ignore[arg-type]
                    text = "Attempt to delete a user credential that does not exist"
                    absent[each.user] = ResourceNotFoundError(text)
            for (user, number), credential in made.items():
                mechanism = ScramMechanism.of_type(number)
                assert mechanism is not None
                after[user][mechanism] = credential
            return [SetScramCredentials(user, each) for user, each in after.items() if user not in absent]

        try:
            if known:
                await self._store.commit(decide)
        except OSError as error:
            failure = KafkaStorageError(f"The cluster's registry cannot be stored: {error}")
            absent = dict.fromkeys(known, failure)
        results |= dict.fromkeys(known) | absent
        _tell([user for user, error in results.items() if error is None])
        return results


def _tell(users: Sequence[str]) -> None:
    if users:
        more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
        logger.info("SCRAM credentials altered of %s%s", ", ".join(users[:SHOWN]), more)


def _fault(change: Deletion | Upsertion) -> KafkaError | None:
    if not change.user:
        return UnacceptableCredentialError("Username must not be empty")
    if ScramMechanism.of_type(change.mechanism) is None:
        return UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        return None
    if change.iterations < MIN_ITERATIONS:
        return UnacceptableCredentialError("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return UnacceptableCredentialError("Too many iterations")
    if not change.salt or not change.salted_password:
        return UnacceptableCredentialError("The salt and the salted password must not be empty")
    return None


def _credential(change: Upsertion) -> ScramCredential:
    mechanism = ScramMechanism.of_type(change.mechanism)
    assert mechanism is not None
    return ScramCredential.of_salted(mechanism, change.salt, change.salted_password, change.iterations)
