"""Read Java's key store format JKS: certificates, and private keys that a password protects.

The format is that of `sun.security.provider.JavaKeyStore`: a magic number, a version (1 or 2), and entries with an
alias. A digest of the file and the store's password follows. Each private key is encrypted by a cipher that only this
format has (`sun.security.provider.KeyProtector`): a chain of SHA-1 digests of the password and a salt.

Lengths in the file are compared with what is there before anything is read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"
_WHITENER = b"Mighty Aphrodite"
"""The bytes that Java puts between the password and the file's bytes in the digest."""
_DIGEST = hashlib.sha1().digest_size
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""DER of 1.3.6.1.4.1.42.2.17.1.1, the object identifier of the cipher of private keys."""


class StoreFormatError(ValueError):
    """The bytes are not those of such a store."""


class WrongPasswordError(ValueError):
    """The password does not fit, or bytes of the store have changed."""


@dataclass(frozen=True)
class PrivateKeyEntry:
    """A private key with its certificates."""

    alias: str
    protected: bytes = field(repr=False)
    """The encrypted key, as a DER EncryptedPrivateKeyInfo."""
    chain: Sequence[bytes] = field(repr=False)
    """DER certificates: first that of the key, then that of its issuer, and so on."""

    def key(self, password: str) -> bytes:
        """Decrypt the private key.

        Returns:
            A DER PrivateKeyInfo (PKCS #8).

        Raises:
            WrongPasswordError: The password is not that of the key.
            StoreFormatError: The key is protected in another way.
        """
        data = _protected_bytes(self.protected)
        salt, secret, check = data[:_DIGEST], data[_DIGEST:-_DIGEST], data[-_DIGEST:]
        encoded = _password_bytes(password)
        stream, block = bytearray(), salt
        while len(stream) < len(secret):
            block = hashlib.sha1(encoded + block).digest()
            stream += block
        size = len(secret)
        plain = (int.from_bytes(secret) ^ int.from_bytes(stream[:size])).to_bytes(size)
        if not hmac.compare_digest(hashlib.sha1(encoded + plain).digest(), check):
            raise WrongPasswordError("the password of the private key is wrong")
        return plain


@dataclass(frozen=True)
class Jks:
    """The entries of a store, in the file's order."""

    keys: Sequence[PrivateKeyEntry]
    certificates: Sequence[bytes]
    """Trusted certificates, as DER."""


def parse_jks(data: bytes, password: str | None) -> Jks:
    """Read a store. Without a password its digest is not checked, as in Java.

    Raises:
        StoreFormatError: The bytes are no such store, or a part is missing.
        WrongPasswordError: The password is wrong, or the store has changed.
    """
    if not data.startswith(MAGIC):
        raise StoreFormatError("it is no JKS store")
    reader = _Reader(data)
    reader.take(len(MAGIC))
    version, count = reader.number(4), reader.number(4)
    if version not in (1, 2):
        raise StoreFormatError(f"it is a JKS store of version {version}; versions 1 and 2 are known")
    keys, certificates = [], []
    for _ in range(count):
        tag, alias = reader.number(4), reader.text()
        reader.take(8)  # when the entry was made
        if tag == _KEY_ENTRY:
            protected = reader.block()
            chain = [_certificate(reader, version) for _ in range(reader.number(4))]
            keys.append(PrivateKeyEntry(alias, protected, chain))
        elif tag == _CERTIFICATE_ENTRY:
            certificates.append(_certificate(reader, version))
        else:
            raise StoreFormatError(f"the JKS store has an entry of the unknown kind {tag}")
    end = reader.at
    digest = reader.take(_DIGEST)
    if reader.at != len(data):
        raise StoreFormatError("the JKS store has bytes after its end")
    if password is not None:
        expected = hashlib.sha1(_password_bytes(password) + _WHITENER + data[:end]).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPasswordError("the password is wrong, or the store is damaged")
    return Jks(keys, certificates)


class _Reader:
    """Takes values from the bytes of a store, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise StoreFormatError("the JKS store is cut off")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def block(self) -> bytes:
        return self.take(self.number(4))

    def text(self) -> str:
        """Take a text of Java's `writeUTF`; it is only shown, so that what is not UTF-8 does not matter."""
        return self.take(self.number(2)).decode("utf-8", "replace")


def _certificate(reader: _Reader, version: int) -> bytes:
    kind = reader.text() if version == 2 else "X.509"
    if kind not in ("X.509", "X509"):
        raise StoreFormatError(f"the JKS store has a certificate of the unknown type {kind[:20]!r}")
    return reader.block()


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _protected_bytes(info: bytes) -> bytes:
    """Return the salt, the encrypted key and the check of an EncryptedPrivateKeyInfo.

    Raises:
        StoreFormatError: It is none, or its cipher is not that of JKS.
    """
    body = _der(info, 0, 0x30)[0]
    algorithm, after = _der(body, 0, 0x30)
    if not algorithm.startswith(_PROTECTOR):
        raise StoreFormatError("the private key is protected by a cipher that JKS stores do not have")
    data = _der(body, after, 0x04)[0]
    if len(data) < 2 * _DIGEST:
        raise StoreFormatError("the private key is cut off")
    return data


def _der(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """Return the contents of a DER element that has this tag, and where the next one begins."""
    first = data[at + 1] if len(data) > at + 1 else 0xFF
    begin = at + 2
    if first >= 0x80:
        begin += first & 0x7F
        size = int.from_bytes(data[at + 2 : begin]) if first & 0x7F <= 4 else len(data)
    else:
        size = first
    if len(data) <= at or data[at] != tag or size > len(data) - begin:
        raise StoreFormatError("the private key is not encoded as in a JKS store")
    return data[begin : begin + size], begin + size
