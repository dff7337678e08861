"""Test the requests about SCRAM credentials: each rule of KIP-554, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.admin import scram_users
from broker.controller.security import scram_users as alterations
from broker.metadata.json_form import from_json, to_json
from broker.metadata.local import FILE_NAME
from kafkalog.protocol.errors import ErrorCode, PolicyViolationError
from kafkalog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkalog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from tests.broker.coordinator.support import Stored
from tests.broker.serving import Serving

SHA_256, SHA_512 = ScramMechanism
SALT = b"salt"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, scram_users.HANDLERS)


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096, **more: Any) -> ScramCredentialUpsertion:
    known = ScramMechanism.of_type(mechanism) or SHA_256
    salted = known.salted_password("secret", SALT, 4096)
    fields = {"salt": SALT, "salted_password": salted, **more}
    return ScramCredentialUpsertion(name=user, mechanism=mechanism, iterations=iterations, **fields)


def deletion(user: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(serving: Serving, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, tuple[int, str]]:
    """Alter credentials; return the error of each user with its text."""
    request = AlterUserScramCredentialsRequest(
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
    )
    response = serving.run(serving.ask(request, 0))
    assert len({each.user for each in response.results}) == len(response.results)
    return {each.user: (each.error_code, each.error_message or "") for each in response.results}


def describe(serving: Serving, *users: str) -> dict[str, Any]:
    """Return the mechanisms with iterations of each user, or the error."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
    response = serving.run(serving.ask(request, 0))
    assert response.error_code == ErrorCode.NONE
    return {
        each.user: each.error_code or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in response.results
    }


GOOD = (ErrorCode.NONE, "")


def test_credentials_are_set_replaced_and_deleted(serving: Serving) -> None:
    assert alter(serving, upsertion("alice"), upsertion("alice", 2, 8192), upsertion("bob", 2)) == {
        "alice": GOOD,
        "bob": GOOD,
    }
    assert describe(serving) == {"alice": {1: 4096, 2: 8192}, "bob": {2: 4096}}
    found = serving.broker.scram_users.find(SHA_256, "alice")
    assert found == ScramCredential.of_password(SHA_256, "secret", 4096, SALT)
    assert alter(serving, deletion("alice"), upsertion("bob", 2, 16_384)) == {"alice": GOOD, "bob": GOOD}
    assert describe(serving, "alice", "bob") == {"alice": {2: 8192}, "bob": {2: 16_384}}
    assert serving.broker.scram_users.find(SHA_256, "alice") is None
    assert alter(serving, deletion("alice", 2), deletion("bob", 2)) == {"alice": GOOD, "bob": GOOD}
    assert describe(serving) == {}


def test_the_sample_is_that_of_the_first_name(serving: Serving) -> None:
    users = serving.broker.scram_users
    assert users.sample(SHA_256) is None
    alter(serving, upsertion("carol"), upsertion("bob", 1, 8192), upsertion("alice", 2))
    assert users.sample(SHA_256) == users.find(SHA_256, "bob")
    assert users.sample(SHA_512) == users.find(SHA_512, "alice")
    alter(serving, deletion("bob"))
    assert users.sample(SHA_256) == users.find(SHA_256, "carol")


def test_a_user_is_changed_as_a_whole_or_not_at_all(serving: Serving) -> None:
    alter(serving, upsertion("alice"))
    outcome = alter(serving, upsertion("alice", 2), deletion("alice", 1), upsertion("bob"), deletion("bob", 2))
    assert outcome["alice"] == GOOD
    assert outcome["bob"] == (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )
    assert describe(serving) == {"alice": {2: 4096}}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([deletion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("x", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("x", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([upsertion("x", 1, 4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("x", 2, 16_385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([upsertion("x", salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "must not be empty"),
        ([upsertion("x"), deletion("x")], ErrorCode.DUPLICATE_RESOURCE, "altered twice"),
        ([upsertion("x"), upsertion("x")], ErrorCode.DUPLICATE_RESOURCE, "altered twice"),
        ([deletion("x")], ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
        ([upsertion("x"), upsertion("x", 2, 1)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
    ],
)
def test_what_is_refused(
    serving: Serving, changes: list[ScramCredentialUpsertion | ScramCredentialDeletion], code: int, text: str
) -> None:
    outcome = alter(serving, *changes, upsertion("good"))
    assert outcome["good"] == GOOD
    (found,) = (value for user, value in outcome.items() if user != "good")
    assert found[0] == code
    assert text in found[1]
    assert describe(serving) == {"good": {1: 4096}}


def test_others_have_their_turn_while_credentials_are_made(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alterations, "ALTERATIONS_A_TURN", 1, raising=False)
    monkeypatch.setattr(alterations, "AT_ONCE", 7, raising=False)
    of_salted, rounds = ScramCredential.of_salted, list[int]()

    def note(*arguments: Any) -> ScramCredential:
        rounds.append(serving.turns)
        return of_salted(*arguments)

    monkeypatch.setattr(ScramCredential, "of_salted", note)
    users = [f"user-{number}" for number in range(20)]
    assert alter(serving, *map(upsertion, users)) == dict.fromkeys(users, GOOD)
    assert len(set(rounds)) == len(users), "two were made in one round of the loop"
    assert describe(serving) == {user: {1: 4096} for user in users}
    outcome = alter(serving, *map(deletion, users), deletion("x"))
    assert outcome.pop("x") == (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )
    assert outcome == dict.fromkeys(users, GOOD)
    assert describe(serving) == {}


def test_a_request_that_alters_too_many_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alterations, "MAX_ALTERATIONS", 2, raising=False)
    assert alter(serving, upsertion("alice"), upsertion("alice", 2)) == {"alice": GOOD}
    outcome = alter(serving, deletion("alice"), upsertion("bob"), upsertion("carol"))
    assert {user: code for user, (code, _) in outcome.items()} == dict.fromkeys(
        ["alice", "bob", "carol"], ErrorCode.POLICY_VIOLATION
    )
    assert describe(serving) == {"alice": {1: 4096, 2: 4096}}


def test_what_the_store_refuses_is_told_of_each_user(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is closed instead would not say which users were altered before."""

    async def refuse(decide: object) -> None:
        raise PolicyViolationError("too large")

    monkeypatch.setattr(serving.parts.store, "commit", refuse)
    assert alter(serving, upsertion("alice"), upsertion("")) == {
        "alice": (ErrorCode.POLICY_VIOLATION, "too large"),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
    }


def test_what_cannot_be_described(serving: Serving) -> None:
    alter(serving, upsertion("alice"))
    assert describe(serving, "alice", "alice", "bob", "") == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_the_registry_keeps_keys_for_its_owner_only(serving: Serving, tmp_path: Path) -> None:
    alter(serving, upsertion("alice"))
    state = serving.parts.store.state
    assert from_json(to_json(state), "here") == state
    written = tmp_path / FILE_NAME
    assert written.stat().st_mode & 0o077 == 0
    assert "secret" not in written.read_text()
