"""The SCRAM credentials of users: altering, describing and finding them (KIP-554)."""

from __future__ import annotations

import asyncio
import logging
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
    PolicyViolationError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from kafkalog.protocol.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism

logger = logging.getLogger(__name__)

SHOWN = 5
MAX_ALTERATIONS = 10_000
"""The alterations of one request, as in Apache Kafka's own controller."""
ALTERATIONS_A_TURN = 100
"""The number of credentials that are made, at some 15 µs each, before other requests get their turn."""
AT_ONCE = 500
"""The most users that are altered in one commit, so that other requests have their turn in between."""
_TOO_LARGE = PolicyViolationError(
    "Unable to perform excessively large batch operation: a request may alter at most "
    f"{MAX_ALTERATIONS} user credentials."
)
_Changes = dict[ScramMechanism, ScramCredential | None]
"""The new credentials of a user; None deletes one."""
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
        """Commit the alterations of all users without a fault, those of one user together.

        Other requests get their turn while credentials of many users are made.

        Returns:
            None for each user, or the error that prevented all of the user's alterations.
        """
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        is_too_large = len(changes) > MAX_ALTERATIONS
        results: dict[str, KafkaError | None] = {}
        wanted: dict[str, _Changes] = {}
        for number, change in enumerate(changes, 1):
            if is_too_large:
                results[change.user] = _TOO_LARGE
            else:
                _note(change, wanted, results)
            if number % ALTERATIONS_A_TURN == 0:
                await asyncio.sleep(0)
        known = [user for user in wanted if user not in results]
        for first in range(0, len(known), AT_ONCE):
            results |= await self._commit({user: wanted[user] for user in known[first : first + AT_ONCE]})
        _tell([user for user, error in results.items() if error is None])
        return results

    async def _commit(self, wanted: Mapping[str, _Changes]) -> dict[str, KafkaError | None]:
        """Commit the alterations of some users; return None for each, or the error."""
        absent: dict[str, KafkaError | None] = {}

        def decide(state: ClusterState) -> list[SetScramCredentials]:
            # Deletions are decided on the state that they are committed to.
            absent.clear()
            operations = []
            for user, changes in wanted.items():
                credentials = dict(state.scram_credentials.get(user, {}))
                for mechanism, credential in changes.items():
                    if credential is not None:
                        credentials[mechanism] = credential
                    elif credentials.pop(mechanism, None) is None:
                        text = "Attempt to delete a user credential that does not exist"
                        absent[user] = ResourceNotFoundError(text)
                if user not in absent:
                    operations.append(SetScramCredentials(user, credentials))
            return operations

        try:
            await self._store.commit(decide)
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        except OSError as error:
            failure = KafkaStorageError(f"The cluster's registry cannot be stored: {error}")
            return dict.fromkeys(wanted, failure)
        return dict.fromkeys(wanted) | absent


def _note(change: Deletion | Upsertion, wanted: dict[str, _Changes], results: dict[str, KafkaError | None]) -> None:
    """Note what is wanted of a user, or in `results` why none of it is done."""
    fault = _fault(change)
    if fault is not None:
        results[change.user] = fault
        return
    mechanism = ScramMechanism.of_type(change.mechanism)
    assert mechanism is not None
    changes = wanted.setdefault(change.user, {})
    if mechanism in changes:
        text = "A user credential cannot be altered twice in the same request"
        results.setdefault(change.user, DuplicateResourceError(text))
    elif isinstance(change, Deletion):
        changes[mechanism] = None
    else:
        changes[mechanism] = ScramCredential.of_salted(
            mechanism, change.salt, change.salted_password, change.iterations
        )


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
