"""An authority whose certificates are made in this process, and contexts of TLS made of them."""

from __future__ import annotations

import atexit
import ipaddress
import shutil
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

LOCAL = ("localhost", "127.0.0.1")
DAY = timedelta(days=1)


def name_of(common_name: str) -> x509.Name:
    """Return a name with one part."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """Signs certificates. Each is a PEM file with its key, in a directory that lasts as long as the process."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name_of(name)
        self._count = 0
        now = datetime.now(UTC)
        self._certificate = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key(), x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 400 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @cached_property
    def directory(self) -> Path:
        """The directory of the files."""
        made = Path(tempfile.mkdtemp(prefix="authority-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made

    @cached_property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        path = self.directory / "authority.pem"
        path.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        return path

    def sign(
        self,
        subject: str | x509.Name,
        hosts: tuple[str, ...] = (),
        *,
        begin: timedelta = -DAY,
        end: timedelta = 365 * DAY,
        password: str | None = None,
        path: Path | None = None,
    ) -> Path:
        """Make a certificate; its times are relative to now.

        Returns:
            A file with the certificate and its key, at `path` if that is given.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(
                self._name,
                name_of(subject) if isinstance(subject, str) else subject,
                key.public_key(),
                x509.random_serial_number(),
            )
            .not_valid_before(now + begin)
            .not_valid_after(now + end)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        self._count += 1
        target = path or self.directory / f"{self._count}.pem"
        target.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption) + certificate)
        return target


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@cache
def authority() -> Authority:
    """Return the authority that tests of a process share."""
    return Authority()


@cache
def server_file() -> Path:
    """Return a certificate for this host."""
    return authority().sign("server", LOCAL)


def server_context(verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    """Return the context of a server that may ask for certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(server_file())
    context.load_verify_locations(authority().certificate)
    context.verify_mode = verify
    return context


def client_context(own: Path | None = None) -> ssl.SSLContext:
    """Return the context of a client that trusts the server, and may show a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority().certificate)
    if own is not None:
        context.load_cert_chain(own)
    return context
