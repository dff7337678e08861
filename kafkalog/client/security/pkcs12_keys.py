"""Count the private keys in a PKCS #12 store (RFC 7292), also those in its encrypted parts.

The package cryptography returns one key of several. Each key has an object identifier of its own before it. keytool and
OpenSSL encrypt the keys, but not what stands before them. Other programs may encrypt a part of the store as a whole,
with the keys in it.

A part that cannot be decrypted here counts as one without keys: a part with another cipher than AES and triple DES, or
with lengths in the form without an end (BER).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_KEYS = tuple(bytes.fromhex(f"060b2a864886f70d010c0a01{kind:02x}") for kind in (1, 2))
"""DER of the object identifiers of private keys: keyBag and pkcs8ShroudedKeyBag (RFC 7292, 4.2)."""
_ENCRYPTED_DATA = bytes.fromhex("2a864886f70d010706")
_PBES2 = bytes.fromhex("2a864886f70d01050d")
_HASHES = {
    bytes.fromhex(f"2a864886f70d02{number:02x}"): name
    for number, name in ((7, "sha1"), (9, "sha256"), (10, "sha384"), (11, "sha512"))
}
"""Hashes of PBKDF2, by the object identifiers of their HMAC."""
_AES_CBC = {bytes.fromhex(f"6086480165030401{number:02x}"): size for number, size in ((2, 16), (22, 24), (42, 32))}
"""Bytes of the keys of AES, by its object identifiers."""
_TRIPLE_DES = bytes.fromhex("2a864886f70d010c0103")
_KEY, _IV = 1, 2
_HASHED = 64
"""Bytes that SHA-1 takes at a time."""
_MOST_ROUNDS = 1_000_000
_SEQUENCE, _OCTETS, _IDENTIFIER = 0x30, 0x04, 0x06


class _UnreadableError(Exception):
    """Bytes that are not read here; no user sees it."""


class _Element(NamedTuple):
    tag: int
    content: bytes

    @property
    def parts(self) -> list[_Element]:
        return _elements(self.content)


def count_plain_keys(data: bytes) -> int:
    """Return the number of private keys in the parts of a store that are not encrypted."""
    return sum(map(data.count, _KEYS))


def count_encrypted_keys(data: bytes, password: bytes) -> int:
    """Return the number of private keys in the encrypted parts of a store, of which `password` is the right one."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        contents = _elements(data)[0].parts[1].parts[1].parts[0].content
        parts = [each.parts for each in _elements(contents)[0].parts]
        encrypted = [part[1].parts[0].parts[1].parts for part in parts if part[0].content == _ENCRYPTED_DATA]
        return sum(count_plain_keys(_decrypted(part[1].parts, part[2].content, password)) for part in encrypted)
    except (_UnreadableError, LookupError, ValueError, ImportError, UnsupportedAlgorithm):
        # TripleDES was in another module before release 43 of the package.
        return 0


def _elements(data: bytes) -> list[_Element]:
    """Return the DER elements that follow each other.

    Raises:
        _UnreadableError: The data is no DER.
    """
    found, at = [], 0
    while at < len(data):
        if at + 2 > len(data):
            raise _UnreadableError
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            if not digits:
                raise _UnreadableError
            size, at = int.from_bytes(data[at : at + digits]), at + digits
        if at + size > len(data):
            raise _UnreadableError
        found.append(_Element(tag, data[at : at + size]))
        at += size
    return found


def _decrypted(algorithm: list[_Element], data: bytes, password: bytes) -> bytes:
    """Return the plain text of an encrypted part.

    Raises:
        _UnreadableError: The algorithm is another one than those of this module.
        ValueError: It does not fit the data.
        LookupError: The algorithm lacks parameters.
        ImportError, UnsupportedAlgorithm: The package cryptography lacks the cipher.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    name, parameters = algorithm[0].content, algorithm[1].parts
    if name == _PBES2:
        key, iv = _of_pbes2(parameters, password)
        decryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).decryptor()
        return decryptor.update(data) + decryptor.finalize()
    if name != _TRIPLE_DES:
        raise _UnreadableError
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES

    salt, rounds = parameters[0].content, _rounds(parameters[1])
    key, iv = (_derived(password, salt, rounds, *wanted) for wanted in ((_KEY, 24), (_IV, 8)))
    decryptor = Cipher(TripleDES(key), modes.CBC(iv)).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def _of_pbes2(parameters: list[_Element], password: bytes) -> tuple[bytes, bytes]:
    """Return the key and the initial vector of PBES2 with PBKDF2 and AES (RFC 8018). Raises errors as `_decrypted`."""
    derivation, cipher = (each.parts for each in parameters)
    salt, rounds, *others = derivation[1].parts
    pseudorandom = [each.parts[0].content for each in others if each.tag == _SEQUENCE]
    hashed = _HASHES[pseudorandom[0]] if pseudorandom else "sha1"
    size = _AES_CBC[cipher[0].content]
    return hashlib.pbkdf2_hmac(hashed, password, salt.content, _rounds(rounds), size), cipher[1].content


def _rounds(element: _Element) -> int:
    rounds = int.from_bytes(element.content)
    if not 0 < rounds <= _MOST_ROUNDS:
        raise _UnreadableError
    return rounds


def _derived(password: bytes, salt: bytes, rounds: int, purpose: int, size: int) -> bytes:
    """Derive a key, or an initial vector, as PKCS #12 does itself with SHA-1 (RFC 7292, appendix B.2)."""
    text = password.decode().encode("utf-16-be") + b"\0\0"
    blocks = b"".join((each * _HASHED)[: -(-len(each) // _HASHED) * _HASHED] for each in (salt, text))
    found = b""
    while len(found) < size:
        block = hashlib.sha1(bytes([purpose]) * _HASHED + blocks).digest()
        for _ in range(rounds - 1):
            block = hashlib.sha1(block).digest()
        found += block
        added = int.from_bytes((block * 4)[:_HASHED]) + 1
        blocks = b"".join(
            ((int.from_bytes(blocks[at : at + _HASHED]) + added) % (1 << 8 * _HASHED)).to_bytes(_HASHED)
            for at in range(0, len(blocks), _HASHED)
        )
    return found[:size]
