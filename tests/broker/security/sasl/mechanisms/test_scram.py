"""Test the server's side of SCRAM: the example of RFC 7677, our own client, and clients that lie."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.mechanisms.interface import Identity, SaslError, SaslRefusalError
from broker.security.sasl.mechanisms.scram import ScramServer, UnknownUsers
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from kafkalog.protocol.wire.errors import AuthenticationFailedError
from kafkalog.protocol.wire.sasl import Scram

UNKNOWN = UnknownUsers(b"nobody knows")
PASSWORDS = {"alice": "a-secret", "o=hare, jr": "b", "josé": "ĳ", "*": "star"}
USERS = {
    mechanism: {name: ScramCredential.of_password(mechanism, password) for name, password in PASSWORDS.items()}
    for mechanism in ScramMechanism
}
BOTH = list(ScramMechanism)


def server(mechanism: ScramMechanism = ScramMechanism.SHA_256, nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, USERS[mechanism].get, UNKNOWN, lambda: nonce)


def client(mechanism: ScramMechanism, user: str, password: str) -> Scram:
    return Scram(mechanism.value.removeprefix("SCRAM-"), user, password)


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    user = {"user": ScramCredential.of_password(ScramMechanism.SHA_256, "pencil", 4096, salt)}
    own = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = ScramServer(ScramMechanism.SHA_256, user.get, UNKNOWN, lambda: own)
    nonce = f"rOprNGfwEbeRWgbNEkqO{own}"
    assert exchange.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    )
    assert exchange.answer(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()) == (
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert exchange.identity == Identity("user")


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("user", PASSWORDS)
def test_our_own_client(mechanism: ScramMechanism, user: str) -> None:
    ours, theirs = server(mechanism), client(mechanism, user, PASSWORDS[user])
    first = ours.answer(theirs.first())
    assert ours.identity is None
    proof = theirs.answer(first)
    assert proof is not None
    assert theirs.answer(ours.answer(proof)) is None
    assert ours.identity == Identity(user)


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize(("user", "password"), [("alice", "b-secret"), ("carol", "a-secret")])
def test_a_user_who_does_not_exist_fails_where_a_wrong_password_does(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    ours, theirs = server(mechanism), client(mechanism, user, password)
    proof = theirs.answer(ours.answer(theirs.first()))
    assert proof is not None
    with pytest.raises(SaslError, match="Invalid client credentials") as caught:
        ours.answer(proof)
    assert not isinstance(caught.value, SaslRefusalError)
    assert ours.identity is None


def test_the_salt_of_a_user_who_does_not_exist_is_always_the_same() -> None:
    def salt(user: str, mechanism: ScramMechanism = ScramMechanism.SHA_256, unknown: UnknownUsers = UNKNOWN) -> bytes:
        exchange = ScramServer(mechanism, lambda _: None, unknown, lambda: "s")
        return exchange.answer(f"n,,n={user},r=c".encode()).split(b",")[1]

    assert salt("carol") == salt("carol")
    assert (
        len(
            {
                salt("carol"),
                salt("dave"),
                salt("carol", ScramMechanism.SHA_512),
                salt("carol", unknown=UnknownUsers(b"")),
            }
        )
        == 4
    )
    assert len(salt("carol")) == len(server().answer(b"n,,n=alice,r=c").split(b",")[1])


def test_a_user_who_does_not_exist_looks_like_one_who_does() -> None:
    mechanism = ScramMechanism.SHA_256
    for salt in (b"1a2b3c4d5e6f7g8h9i0jklmnop", b"\x00\xff" * 10):
        alice = ScramCredential.of_password(mechanism, "a-secret", 8192, salt)
        others = [UnknownUsers(secret, lambda _: alice) for secret in (b"one process", b"another")]  # noqa: B023
        made = [unknown.credential(mechanism, "carol") for unknown in others]
        assert made[0].salt == made[1].salt, "on all brokers, and after a restart"
        assert made[0].salt != others[0].credential(mechanism, "dave").salt
        assert {each.iterations for each in made} == {8192}
        assert len(made[0].salt) == len(salt)
        assert made[0].salt.isalnum() == salt.isalnum()
        assert made[0].stored_key != made[1].stored_key


def proof_of(change: Callable[[bytes], bytes], first: bytes | None = None) -> ScramServer:
    """Change the last message of a client that knows the password, and have the server take it."""
    ours, theirs = server(), client(ScramMechanism.SHA_256, "alice", "a-secret")
    proof = theirs.answer(ours.answer(first or theirs.first()))
    assert proof is not None
    ours.answer(change(proof))
    return ours


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # CVE-2024-56128: the whole nonce counts.
        (lambda proof: proof.replace(b",r=", b",r=x"), "nonce"),
        (lambda proof: proof.replace(b"server", b"serve"), "nonce"),
        (lambda proof: b"c=biws,r=server," + proof[proof.index(b"p=") :], "nonce"),
        (lambda proof: proof.replace(b"c=biws", b"c=" + b64encode(b"y,,")), "channel binding"),
        (lambda proof: proof.replace(b"c=biws", b"c=biw"), "Base64"),
        (lambda proof: proof[: proof.index(b"p=")] + b"p=" + b64encode(b"x" * 20), "20 bytes"),
        (lambda proof: proof[: proof.index(b"p=")] + b"p=" + b64encode(b"x" * 32), "Invalid client credentials"),
        (lambda proof: proof.replace(b",p=", b",ext=1,p="), "Invalid client credentials"),
        (lambda proof: proof + b"\0", "format"),
        (lambda proof: b"", "format"),
        (lambda proof: b"\xff", "UTF-8"),
        (lambda proof: b"x" * 20_000, "longer than"),
    ],
)
def test_a_last_message_that_lies(change: Callable[[bytes], bytes], reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        proof_of(change)


def test_a_last_message_that_is_right() -> None:
    assert proof_of(lambda proof: proof).identity == Identity("alice")


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n,,", b"n,,n=alice", b"n,,r=c,n=alice", b"y,,n=alice,r=c", b"p=tls-unique,,n=alice,r=c",
        b"n,,n=,r=c", b"n,,n=al=ice,r=c", b"n,,n=al=2Dice,r=c", b"n,,n=alice,r=", b"n,,n=alice,r=a b",
        b"n,a=bob,n=alice,r=c", b"n,,m=x,n=alice,r=c", b"n,,n=alice,r=c,ext", b"n,,n=a\0,r=c",
    ],
)  # fmt: skip
def test_a_first_message_that_is_wrong(message: bytes) -> None:
    with pytest.raises(SaslError):
        server().answer(message)


def test_the_authorization_id_and_extensions() -> None:
    assert server().answer(b"n,a=alice,n=alice,r=c,more=1,ext=2").startswith(b"r=cserver,s=")


def test_a_delegation_token_stands_for_its_owner() -> None:
    mechanism = ScramMechanism.SHA_256
    credential, owner = ScramCredential.of_password(mechanism, "hmac"), Identity("ann", 9000, is_of_token=True)

    def log_in(token_id: str, password: str, *, token_auth: bool = True) -> ScramServer:
        ours = ScramServer(mechanism, USERS[mechanism].get, UNKNOWN, find_token={"token-1": (credential, owner)}.get)
        theirs = Scram("SHA-256", token_id, password, token_auth=token_auth)
        proof = theirs.answer(ours.answer(theirs.first()))
        assert proof is not None
        theirs.answer(ours.answer(proof))
        return ours

    assert log_in("token-1", "hmac").identity == owner
    assert log_in("alice", "a-secret", token_auth=False).identity == Identity("alice")
    # A user is no token, a token is no user, and a token that does not exist is told at the end, too.
    for token_id, password, token_auth in (
        ("alice", "a-secret", True),
        ("token-1", "hmac", False),
        ("token-2", "hmac", True),
        ("token-1", "guessed", True),
    ):
        with pytest.raises(SaslError, match="Invalid client credentials"):
            log_in(token_id, password, token_auth=token_auth)


def test_librdkafka_before_2_6_1_repeats_its_nonce() -> None:
    """The client signs `r=<its nonce><its nonce><ours>`, which no RFC asks for."""
    mechanism, ours = ScramMechanism.SHA_256, server()
    first = ours.answer(b"n,,n=alice,r=abc").decode()
    made = USERS[mechanism]["alice"]
    for nonce, is_right in (("abcabcserver", True), ("abcabcabcserver", False), ("serverabcserver", False)):
        again = server()
        assert again.answer(b"n,,n=alice,r=abc").decode() == first
        salted = mechanism.salted_password("a-secret", made.salt, made.iterations)
        client_key = mechanism.sign(salted, b"Client Key")
        signed = f"n=alice,r=abc,{first},c=biws,r={nonce}".encode()
        signature = mechanism.sign(mechanism.digest(client_key), signed)
        proof = b64encode(bytes(left ^ right for left, right in zip(client_key, signature, strict=True))).decode()
        message = f"c=biws,r={nonce},p={proof}".encode()
        if is_right:
            assert again.answer(message).startswith(b"v=")
        else:
            with pytest.raises(SaslError, match="nonce"):
                again.answer(message)


def test_an_exchange_that_is_over_takes_nothing_more() -> None:
    ours = proof_of(lambda proof: proof)
    with pytest.raises(SaslError, match="over"):
        ours.answer(b"n,,n=alice,r=c")


@given(st.lists(st.one_of(st.binary(), st.text().map(str.encode)), min_size=1, max_size=3))
def test_any_bytes_are_refused(messages: list[bytes]) -> None:
    ours = server()
    for message in messages:
        try:
            ours.answer(message)
        except SaslError:
            break
    assert ours.identity is None


@given(st.text(min_size=1), st.text())
def test_any_name_and_password(user: str, password: str) -> None:
    user = user.replace("\0", "_")
    try:
        user.encode()
        password.encode()
    except UnicodeEncodeError:
        return
    mechanism = ScramMechanism.SHA_256
    made = ScramCredential.of_password(mechanism, password, 4096, b"salt")
    ours = ScramServer(mechanism, {user: made}.get, UNKNOWN)
    theirs = client(mechanism, user, password)
    proof = theirs.answer(ours.answer(theirs.first()))
    assert proof is not None
    theirs.answer(ours.answer(proof))
    assert ours.identity == Identity(user)


def test_a_server_without_the_password_is_found_out() -> None:
    theirs = client(ScramMechanism.SHA_256, "alice", "a-secret")
    theirs.answer(server().answer(theirs.first()))
    with pytest.raises(AuthenticationFailedError, match="could not prove"):
        theirs.answer(b"v=" + b64encode(b"x" * 32))
