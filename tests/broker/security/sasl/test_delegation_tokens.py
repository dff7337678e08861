"""Test delegation tokens (KIP-48) with clients that log in by them: on a lone broker, and in a cluster."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from kafkalog.client.admin import Admin, DelegationToken, Principal
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    InvalidPrincipalTypeError,
)
from tests.support.member import zookeeper_process
from tests.support.secured.sasl_broker import PREFIX, SaslBroker
from tests.support.secured.uses import produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("processes")]

SECRET = {"delegation.token.secret.key": "of-all-tokens"}
ALICE, BOB, CAROL = Principal("User", "alice"), Principal("User", "bob"), Principal("User", "carol")
SETTINGS = {
    **SECRET,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:alice;User:ANONYMOUS",
    "delegation.token.expiry.check.interval.ms": "200",
}


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with SaslBroker(tmp_path_factory.mktemp("tokens"), SETTINGS) as running:
        yield running.add_scram_users()


def admin(broker: SaslBroker, user: str = "alice") -> Admin:
    return Admin(broker.properties("SCRAM-SHA-256", user))


def by_token(broker: SaslBroker, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.sasl_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": token.jaas,
    }


def may_log_in(broker: SaslBroker, token: DelegationToken) -> bool:
    try:
        with Admin(by_token(broker, token)) as client:
            client.list_topics()
    except AuthenticationError:
        return False
    return True


def test_a_client_logs_in_as_the_owner(broker: SaslBroker) -> None:
    with admin(broker) as client:
        token = client.delegation_tokens.create(renewers=[BOB])
    assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
    assert token.max_timestamp - token.issued_at == 7 * 86_400_000
    assert token.expires_at - token.issued_at == 86_400_000
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert produce(by_token(broker, token, mechanism), "words") >= 0
    with Admin(by_token(broker, token)) as client, pytest.raises(DelegationTokenRequestNotAllowedError):
        client.delegation_tokens.create()
    assert token.password not in broker.logged()
    assert token.password not in (broker.log_dir / "kafkalog.metadata.json").read_text()


def test_a_token_is_described_to_those_who_may_see_it(broker: SaslBroker) -> None:
    with admin(broker) as client:
        token = client.delegation_tokens.create(renewers=[BOB])
        ids = [each.token_id for each in client.delegation_tokens.describe([ALICE])]
        assert token.token_id in ids
        assert token.token_id in [each.token_id for each in client.delegation_tokens.describe([BOB])]
        assert client.delegation_tokens.describe([CAROL]) == []
        assert client.delegation_tokens.describe([]) == []
    with admin(broker, "bob") as client:
        (found,) = [each for each in client.delegation_tokens.describe() if each.token_id == token.token_id]
        assert (found.hmac, found.owner, found.renewers) == (token.hmac, ALICE, (BOB,))


def test_a_token_is_renewed_and_ended(broker: SaslBroker) -> None:
    with admin(broker) as alice, admin(broker, "bob") as bob, admin(broker, "admin") as stranger:
        token = alice.delegation_tokens.create(renewers=[BOB], max_lifetime_ms=3_600_000)
        assert token.expires_at == token.max_timestamp
        ends = bob.delegation_tokens.renew(token.hmac, 60_000)
        assert ends < token.expires_at
        assert alice.delegation_tokens.renew(token.hmac) == token.max_timestamp, "no renewal goes beyond"
        for act in (stranger.delegation_tokens.renew, stranger.delegation_tokens.expire):
            with pytest.raises(DelegationTokenOwnerMismatchError):
                act(token.hmac)
        assert may_log_in(broker, token)
        bob.delegation_tokens.expire(token.hmac)
        assert not may_log_in(broker, token)
        with pytest.raises(DelegationTokenNotFoundError):
            alice.delegation_tokens.renew(token.hmac)


def test_a_token_that_is_over_is_removed(broker: SaslBroker) -> None:
    with admin(broker) as client:
        token = client.delegation_tokens.create(max_lifetime_ms=300)

        def is_gone() -> bool:
            return token.token_id not in {each.token_id for each in client.delegation_tokens.describe()}

        wait_until(is_gone, "the token is removed")
        assert not may_log_in(broker, token)


def test_a_session_ends_with_the_token(broker: SaslBroker) -> None:
    with admin(broker) as client:
        token = client.delegation_tokens.create(max_lifetime_ms=1500)
    with Admin(by_token(broker, token)) as client:
        client.list_topics()

        def is_refused() -> bool:
            try:
                client.list_topics()
            except AuthenticationError:
                return True
            return False

        wait_until(is_refused, "the session is over")


def test_tokens_for_others_need_a_right(broker: SaslBroker) -> None:
    with admin(broker, "admin") as client:
        token = client.delegation_tokens.create(owner=CAROL)
        assert (token.owner, token.requester) == (CAROL, Principal("User", "admin"))
        with pytest.raises(InvalidPrincipalTypeError):
            client.delegation_tokens.create(renewers=[Principal("Group", "x")])
    with admin(broker, "bob") as client, pytest.raises(DelegationTokenAuthorizationFailedError):
        client.delegation_tokens.create(owner=CAROL)


def test_connections_that_may_not_ask(broker: SaslBroker) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap}) as client:
        for act in (client.delegation_tokens.create, client.delegation_tokens.describe):
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                act()


def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    with SaslBroker(tmp_path) as broker, Admin(broker.properties("PLAIN")) as client:
        with pytest.raises(DelegationTokenAuthDisabledError):
            client.delegation_tokens.create()
        with pytest.raises(DelegationTokenAuthDisabledError):
            client.delegation_tokens.describe()


def test_tokens_outlive_a_restart(tmp_path: Path) -> None:
    broker = SaslBroker(tmp_path, SECRET)
    with broker, Admin(broker.properties("PLAIN")) as client:
        token = client.delegation_tokens.create()
        broker.stop()
    with broker:
        assert may_log_in(broker, token)


def test_all_brokers_of_a_cluster_know_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(zookeeper_process(tmp_path / "zookeeper"))
        monkeypatch.setattr("sys.stdin", io.StringIO("a-secret\n"))
        assert main(["server", "add-user", "alice", "--override", f"zookeeper.connect={address}"]) == 0
        members = {"zookeeper.connect": address, "zookeeper.session.timeout.ms": "6000", **SECRET}
        brokers = [
            stack.enter_context(
                SaslBroker(
                    tmp_path / str(number),
                    {**members, "broker.id": str(number), f"{PREFIX}.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
                )
            )
            for number in (1, 2)
        ]
        with admin(brokers[0]) as client:
            wait_until(lambda: len(client.describe_cluster().brokers) == 2, "the brokers know each other")
            token = client.delegation_tokens.create()
        for broker in brokers:
            wait_until(lambda: may_log_in(broker, token), "the token is known")  # noqa: B023
        with admin(brokers[1]) as client:
            client.delegation_tokens.expire(token.hmac)
        for broker in brokers:
            wait_until(lambda: not may_log_in(broker, token), "the token is ended")  # noqa: B023
