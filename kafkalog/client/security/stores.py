"""Read stores of certificates and private keys: JKS, PKCS #12 and PEM.

What a file contains is recognised by its first bytes, as Java does for JKS and PKCS #12 (`DualFormatJKS`). All errors
name the option that has to change, and none shows a password.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog.client.errors import ConfigError
from kafkalog.client.security import jks, pem
from kafkalog.client.security.pkcs12_keys import count_encrypted_keys, count_plain_keys
from kafkalog.client.security.tls_options import TlsOptions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

MAX_BYTES = 64 << 20
"""No store is as large as this; a file that is, is something else."""


@dataclass(frozen=True)
class Identity:
    """A certificate with its issuers, and its private key, as PEM."""

    certificates: str
    key: str = field(repr=False)
    password: str | None = field(repr=False)
    """The password of the key; None where it has none, or was decrypted already."""
    option: str
    """The option that names the key, for messages."""


def trusted_certificates(options: TlsOptions) -> str | bytes | None:
    """Return the certificates to trust: PEM text, DER certificates one after another, or None for the system's own.

    Raises:
        ConfigError: They cannot be read.
    """
    for option, text in (
        ("ssl.truststore.certificates", options.truststore_certificates),
        ("ssl.ca.pem", options.ca_pem),
    ):
        if text is not None:
            return _pem_certificates(option, text)
    if options.truststore_location is not None:
        store = _Store("truststore", options.truststore_location, options.truststore_type, options.truststore_password)
        return store.trusted()
    return None


def identity(options: TlsOptions) -> Identity | None:
    """Return the certificate to show to brokers; None where none is configured.

    Raises:
        ConfigError: It cannot be read.
    """
    password = options.key_password
    if options.keystore_key is not None and options.keystore_chain is not None:
        key = _pem_private_key("ssl.keystore.key", options.keystore_key)
        certificates = _pem_certificates("ssl.keystore.certificate.chain", options.keystore_chain)
        return Identity(certificates, key, password, "ssl.keystore.key")
    if options.keystore_location is not None:
        store = _Store("keystore", options.keystore_location, options.keystore_type, options.keystore_password)
        return store.identity(password)
    if not options.has_certificate:
        return None
    if options.certificate_pem is not None:
        option, text = "ssl.certificate.pem", options.certificate_pem
    else:
        option, text = "ssl.certificate.location", _pem_file("ssl.certificate.location", options)
    certificates = _pem_certificates(option, text)
    # Without an option for the key, it is in the text with the certificates.
    if options.key_pem is not None:
        option, text = "ssl.key.pem", options.key_pem
    elif options.key_location is not None:
        option, text = "ssl.key.location", _pem_file("ssl.key.location", options)
    return Identity(certificates, _pem_private_key(option, text), password, option)


def read_file(option: str, path: str) -> bytes:
    """Read the file that an option names.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{option}={path}: cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{option}={path}: it is larger than any store of certificates")
    return data


_OLD_CIPHERS = tuple(bytes.fromhex(f"060a2a864886f70d010c01{number:02x}") for number in (1, 2, 5, 6))
"""DER of the object identifiers of encryption by RC4 and RC2 (RFC 7292, appendix C). keytool of Java 8 writes such
stores."""
_WITHOUT_LENGTH = b"\x80"
"""The length of an element of BER that ends with a mark."""


class _Store:
    """A file with certificates or keys, as three properties describe it."""

    def __init__(self, name: str, path: str, kind: str | None, password: str | None) -> None:
        self._prefix = f"ssl.{name}"
        self._path = path
        self._password = password
        self._data = read_file(f"{self._prefix}.location", path)
        self._kind = self._recognised(kind)

    @property
    def _location(self) -> str:
        return f"{self._prefix}.location={self._path}"

    def _recognised(self, given: str | None) -> str:
        data = self._data
        if data.startswith(jks.MAGIC):
            found = "JKS"
        elif b"-----BEGIN" in data:
            found = "PEM"
        elif data.startswith(b"\x30"):
            found = "PKCS12"
        else:
            what = "it is a JCEKS store" if data.startswith(jks.JCEKS_MAGIC) else "it is no store"
            raise ConfigError(
                f"{self._location}: {what} of the types JKS, PKCS12 or PEM; "
                "keytool -importkeystore -deststoretype PKCS12 converts stores"
            )
        # Java takes JKS and PKCS12 for each other.
        if given is not None and (given == "PEM") != (found == "PEM"):
            raise ConfigError(f"{self._prefix}.type={given}: {self._path} is {found}; set {self._prefix}.type={found}")
        if found == "PEM" and self._password is not None:
            raise ConfigError(f"{self._prefix}.password does not go with {self._path}, which is PEM; leave it out")
        return found

    def trusted(self) -> str | bytes:
        if self._kind == "PEM":
            return _pem_certificates(self._location, self._text())
        if self._kind == "JKS":
            store = self._jks()
            # As Java's trust managers: also the certificates of keys are trusted, but not their issuers.
            found = [*store.certificates, *(key.chain[0] for key in store.keys if key.chain)]
        else:
            found = _trusted_der(self._pkcs12())
        if not found:
            raise ConfigError(f"{self._location}: it holds no certificates; import the authority's with keytool")
        return b"".join(found)

    def identity(self, key_password: str | None) -> Identity:
        location = f"{self._prefix}.location"
        if self._kind == "PEM":
            text = self._text()
            private_key = _pem_private_key(self._location, text)
            return Identity(_pem_certificates(self._location, text), private_key, key_password, location)
        if self._kind == "PKCS12":
            return self._pkcs12_identity(location)
        if self._password is None:
            raise ConfigError(f"{self._location}: {self._prefix}.password is missing")
        keys = self._jks().keys
        if not keys:
            raise ConfigError(f"{self._location}: it holds no private key; set the store that has one")
        self._refuse_several(len(keys))
        entry = keys[0]
        try:
            key = entry.key(self._password if key_password is None else key_password)
        except jks.WrongPasswordError:
            problem = "is wrong" if key_password is not None else "is missing: it differs from the store's password"
            raise ConfigError(f"ssl.key.password: that of the key in {self._path} {problem}") from None
        except jks.StoreFormatError as error:
            raise ConfigError(f"{self._location}: {error}") from None
        chain = "".join(map(ssl.DER_cert_to_PEM_cert, entry.chain))
        return Identity(chain, _der_key_as_pem(key), None, location)

    def _pkcs12_identity(self, location: str) -> Identity:
        store = self._pkcs12()
        from cryptography.hazmat.primitives import serialization

        if store.key is None or store.cert is None:
            raise ConfigError(f"{self._location}: it holds no private key; set the store that has one")
        key = store.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity("".join(map(ssl.DER_cert_to_PEM_cert, _chain(store))), _der_key_as_pem(key), None, location)

    def _refuse_several(self, keys: int) -> None:
        """Refuse a store of several keys: Java's choice depends on what the broker names in the handshake.

        Raises:
            ConfigError: There are several.
        """
        if keys > 1:
            raise ConfigError(
                f"{self._location}: it holds {keys} private keys, and nothing says which one to use; "
                "keytool -importkeystore -srcalias copies one into a store of its own"
            )

    def _text(self) -> str:
        # What is not UTF-8 can only stand outside of the PEM blocks.
        return self._data.decode("utf-8", "replace")

    def _jks(self) -> jks.Jks:
        try:
            return jks.parse_jks(self._data, self._password)
        except jks.WrongPasswordError:
            raise ConfigError(
                f"{self._prefix}.password: that of {self._path} is wrong, or the store is damaged"
            ) from None
        except jks.StoreFormatError as error:
            raise ConfigError(f"{self._location}: {error}") from None

    def _pkcs12(self) -> PKCS12KeyAndCertificates:
        try:
            from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
        except ImportError:
            raise ConfigError(
                f"{self._location}: PKCS #12 stores need the package cryptography: pip install 'kafkalog[tls]'"
            ) from None
        password = None if self._password is None else self._password.encode()
        # The package returns one key of several, and counts the certificates of the others among those to trust.
        plain = count_plain_keys(self._data)
        self._refuse_several(plain)
        try:
            store = load_pkcs12(self._data, password)
        except ValueError:
            problem = "is missing" if password is None else "is wrong"
            raise ConfigError(
                f"{self._prefix}.password: that of {self._path} {problem}, or the store is damaged"
                f"{_unread_encoding(self._data)}"
            ) from None
        except Exception as error:
            # An algorithm that OpenSSL does not have, or does not allow.
            raise ConfigError(f"{self._location}: it cannot be read: {type(error).__name__}: {error}") from None
        if store.key is not None:
            self._refuse_several(plain + count_encrypted_keys(self._data, password or b""))
        return store


def _unread_encoding(data: bytes) -> str:
    """Return what some builds of the package do not read of a PKCS #12 store, for the error; empty where nothing is."""
    if any(each in data for each in _OLD_CIPHERS):
        unread = "OpenSSL does not read its ciphers, RC2 or RC4, without its legacy provider"
    elif data[1:2] == _WITHOUT_LENGTH:
        unread = "the package cryptography does not read its encoding, BER"
    else:
        return ""
    return f", or {unread}; write it anew: keytool -importkeystore of Java 17, or openssl pkcs12 -legacy and -export"


def _chain(store: PKCS12KeyAndCertificates) -> Sequence[bytes]:
    """Return the certificate of the key, that of its issuer, and so on, without the other certificates of the store."""
    from cryptography.hazmat.primitives.serialization import Encoding

    assert store.cert is not None
    current = store.cert.certificate
    found = [current]
    others = [each.certificate for each in store.additional_certs]
    while current.issuer != current.subject:
        issuers = [each for each in others if each.subject == current.issuer and each not in found]
        if not issuers:
            break
        current = issuers[0]
        found.append(current)
    return [each.public_bytes(Encoding.DER) for each in found]


def _trusted_der(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Return the certificates to trust. As in Java, one that is there as an issuer of the key's is not among them.

    The package does not show the attribute by which Java knows trusted certificates. But keytool writes an issuer that
    is also trusted by itself twice.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs]
    if store.cert is not None:
        own, *issuers = _chain(store)
        for issuer in issuers:
            found.remove(issuer)
        found.append(own)
    return found


def _pem_file(option: str, options: TlsOptions) -> str:
    path = options.certificate_location if option == "ssl.certificate.location" else options.key_location
    return read_file(option, path or "").decode("utf-8", "replace")


def _pem_certificates(option: str, text: str) -> str:
    if not pem.count(pem.CERTIFICATE, text):
        raise ConfigError(f"{option}: it has no line -----BEGIN CERTIFICATE-----")
    return pem.blocks(pem.CERTIFICATE, text)


def _pem_private_key(option: str, text: str) -> str:
    keys = pem.count(pem.PRIVATE_KEY, text)
    if keys != 1:
        what = "no line -----BEGIN PRIVATE KEY-----" if keys == 0 else f"{keys} private keys instead of one"
        raise ConfigError(f"{option}: it has {what}")
    return pem.blocks(pem.PRIVATE_KEY, text)


def _der_key_as_pem(der: bytes) -> str:
    return ssl.DER_cert_to_PEM_cert(der).replace("CERTIFICATE", "PRIVATE KEY")
