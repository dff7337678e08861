"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows a password.

    client-first   n,,n=user,r=<nonce>[,extensions]
    server-first   r=<nonce><more>,s=<salt>,i=<iterations>
    client-final   c=biws,r=<nonce><more>[,extensions],p=<proof>
    server-final   v=<signature>

As with Kafka, there is no channel binding, and names are in UTF-8 as they are (no SASLprep). What is signed are the
messages as they were sent. A client with the name of a user that does not exist gets a salt, and a failure at the end,
as for a wrong password: the step that fails does not tell which names exist.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable

from broker.security.sasl.mechanisms.interface import Identity, SaslError
from kafkalog.protocol.scram import DEFAULT_ITERATIONS, MIN_ITERATIONS, SALT_BYTES, ScramCredential, ScramMechanism

FindToken = Callable[[str], tuple[ScramCredential, Identity] | None]
"""Returns the credential of a delegation token for the mechanism, and its owner; None if there is no such token."""
Find = Callable[[str], ScramCredential | None]
"""Returns the credential of a user for the mechanism; None if there is none."""

_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*)"
_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS})"
)
_FINAL = re.compile(
    rf"(?P<signed>c=(?P<binding>[A-Za-z0-9+/]+=*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/]+=*)"
)
_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
MAX_MESSAGE = 16 * 1024
"""The longest message in bytes. Kafka has no other limit than `sasl.server.max.receive.size`."""


Sample = Callable[[ScramMechanism], ScramCredential | None]
"""Returns the credential of some user for a mechanism, the same on all brokers; None if nobody has one."""


class UnknownUsers:
    """Credentials for users that do not exist.

    They look like that of a user who exists: the salt has the same form, and the iterations are the same. The salt of a
    name is always the same, also after a restart and on other brokers, because it is made with a secret of that user.

    Args:
        secret: makes the salts as long as there are no users; nobody else may know it.
        sample: returns the credential of a user who exists.
    """

    def __init__(self, secret: bytes, sample: Sample = lambda mechanism: None) -> None:
        self._secret = secret
        self._sample = sample

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        """Return a credential that no password fits."""
        like = self._sample(mechanism)
        secret = self._secret if like is None else like.server_key
        name = f"{mechanism.value}\0{username}".encode("utf-8", "surrogatepass")
        salt = _salt(hmac.digest(secret, b"salt" + name, "sha512"), b"" if like is None else like.salt)
        keys = [hmac.digest(self._secret, kind + name, "sha512")[: mechanism.key_bytes] for kind in (b"c", b"s")]
        return ScramCredential(salt, keys[0], keys[1], DEFAULT_ITERATIONS if like is None else like.iterations)


def _salt(random: bytes, like: bytes) -> bytes:
    """Return a salt of random bytes, of the form of another one: Kafka's have letters and digits only."""
    size = min(len(like), len(random)) or SALT_BYTES
    if like and all(byte in _LETTERS for byte in like):
        return bytes(_LETTERS[byte % len(_LETTERS)] for byte in random[:size])
    return random[:size]


class ScramServer:
    """The server's side of one authentication; `ServerMechanism` describes it.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        find: returns the credentials of users.
        unknown: makes salts for users that do not exist.
        make_nonce: makes a fresh random string of printable ASCII without commas.
        find_token: returns the credentials of delegation tokens.
    """

    is_slow = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Find,
        unknown: UnknownUsers,
        make_nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        find_token: FindToken = lambda token_id: None,
    ) -> None:
        self.identity: Identity | None = None
        self.claimed = ""
        self._mechanism = mechanism
        self._find = find
        self._unknown = unknown
        self._find_token = find_token
        self._of_token: Identity | None = None
        """The owner of the delegation token by which the client logs in, if it does."""
        self._make_nonce = make_nonce
        self._credential: ScramCredential | None = None
        """The credential to check against; None before the first message."""
        self._is_known = False
        self._gs2 = ""
        self._client_nonce = ""
        self._nonce = ""
        """The client's nonce, continued by ours. librdkafka before 2.6.1 sends its own once more in front of that, as
        Debian's kcat does. It is accepted, and nothing else: both are signed, and have our fresh nonce."""
        self._signed = ""
        """The first message of the client and the answer, as they are signed."""

    def answer(self, message: bytes) -> bytes:
        """Answer the client's nonce with a salt, and then its proof with our own."""
        if len(message) > MAX_MESSAGE:
            raise SaslError(f"a SCRAM message of {len(message)} bytes is longer than {MAX_MESSAGE}")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise SaslError("a SCRAM message is not in UTF-8") from None
        if self.identity is not None:
            raise SaslError("the SCRAM exchange is over")
        return (self._begin(text) if self._credential is None else self._finish(text, self._credential)).encode()

    def _begin(self, text: str) -> str:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM client first message format")
        username = self.claimed = _unescaped(match["name"])
        authorization_id = match["authzid"]
        if authorization_id is not None and _unescaped(authorization_id) != username:
            raise SaslError("Client requested an authorization id that is different from username")
        credential: ScramCredential | None
        if ",tokenauth=true," in f"{match['extensions'].lower()},":
            found = self._find_token(username)
            credential, self._of_token = (None, None) if found is None else found
        else:
            credential = self._find(username)
        if credential is not None and credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"the credential has {credential.iterations} iterations, fewer than {MIN_ITERATIONS}")
        self._is_known = credential is not None
        self._credential = credential or self._unknown.credential(self._mechanism, username)
        self._gs2 = match["gs2"]
        self._client_nonce = match["nonce"]
        self._nonce = self._client_nonce + self._make_nonce()
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._signed = f"{match['bare']},{answer}"
        return answer

    def _finish(self, text: str, credential: ScramCredential) -> str:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM client final message format")
        if match["nonce"] not in (self._nonce, self._client_nonce + self._nonce):
            raise SaslError("Invalid client nonce in the final SCRAM message.")
        if _decoded(match["binding"]) != self._gs2.encode():
            raise SaslError("the channel binding of the final SCRAM message is not that of the first one")
        mechanism = self._mechanism
        proof = _decoded(match["proof"])
        if len(proof) != mechanism.key_bytes:
            raise SaslError(f"a proof of {len(proof)} bytes does not fit {mechanism.value}")
        signed = f"{self._signed},{match['signed']}".encode()
        signature = mechanism.sign(credential.stored_key, signed)
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(mechanism.digest(client_key), credential.stored_key)
        if not (is_right and self._is_known):
            raise SaslError("Invalid client credentials")
        self.identity = self._of_token or Identity(self.claimed)
        return f"v={b64encode(mechanism.sign(credential.server_key, signed)).decode()}"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslError("a SCRAM message has something that is not Base64") from None
