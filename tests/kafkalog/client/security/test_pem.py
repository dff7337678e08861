"""Tests of PEM text as people keep it: with notes around the blocks, all in one file, or on one line."""

from __future__ import annotations

import _ssl
import contextlib
import dataclasses
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.stores import trusted_certificates
from kafkalog.client.security.tls import make_ssl_context
from kafkalog.client.security.tls_options import TlsOptions
from peers.security.certificates import PASSWORD

STORES = Path(__file__).parents[3] / "golden" / "stores"
AUTHORITY = (STORES / "authority.pem").read_text()
CLIENT = (STORES / "client.pem").read_text()
CUT = CLIENT.index("-----BEGIN CERTIFICATE")
KEY, CERTIFICATE = CLIENT[:CUT], CLIENT[CUT:]
NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: the stored certificates end."""
NOTE = "# NetLock Arany (Class Gold) Főtanúsítvány\n"


def trusted(options: TlsOptions) -> list[bytes]:
    return make_ssl_context(options).get_ca_certs(binary_form=True)


def folded(pem: str, line_break: str) -> str:
    """Return PEM with other line breaks; without any, the lines of the label keep theirs."""
    begin, *base64, end = pem.split("\n")[:-1]
    around = line_break or "\n"
    return f"{begin}{around}{line_break.join(base64)}{around}{end}"


def chain_sent(options: TlsOptions) -> list[bytes]:
    """Return the certificates that a server receives from the client."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(STORES / "client.pem", password=PASSWORD)
    server.load_verify_locations(STORES / "authority.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= NO_CHECK_TIME
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = make_ssl_context(dataclasses.replace(options, verify=False)).wrap_bio(to_client, to_server)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, serving) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    # The module shows the chain from Python 3.13 on; until then its own code has it.
    return [each.public_bytes(_ssl.ENCODING_DER) for each in serving._sslobj.get_unverified_chain()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso8859-2"])
def test_notes_are_no_part_of_a_trust_store(encoding: str, tmp_path: Path) -> None:
    """As in Java's clients, whatever their characters."""
    expected = [ssl.PEM_cert_to_DER_cert(AUTHORITY)]
    noted = f"{NOTE}{AUTHORITY}{NOTE}"
    path = tmp_path / "trust.pem"
    path.write_text(noted, encoding=encoding)
    assert trusted(TlsOptions(truststore_location=str(path))) == expected
    assert trusted(TlsOptions(truststore_certificates=noted)) == expected
    assert trusted(TlsOptions(ca_pem=noted)) == expected


def test_all_certificates_are_trusted_and_nothing_else() -> None:
    found = trusted_certificates(TlsOptions(truststore_certificates=f"{NOTE}{CLIENT}{NOTE}{AUTHORITY}"))
    assert found == f"{CERTIFICATE.strip()}\n{AUTHORITY.strip()}\n"


@pytest.mark.parametrize(
    "damaged",
    [AUTHORITY[:200], AUTHORITY.replace("M", "ő", 3), AUTHORITY.replace("M", "?", 3), "-----BEGIN CERTIFICATE-----"],
)
def test_a_damaged_certificate_is_refused_after_a_good_one(damaged: str) -> None:
    for text in (AUTHORITY + damaged, f"{damaged}\n{AUTHORITY}"):
        with pytest.raises(ConfigError, match="a certificate in it cannot be used"):
            make_ssl_context(TlsOptions(truststore_certificates=text))


@pytest.mark.parametrize("key_after", [False, True])
def test_a_chain_is_sent_once(key_after: bool, tmp_path: Path) -> None:
    """Key and chain may stand in one file, in either order."""
    path = tmp_path / "client.pem"
    chain = CERTIFICATE + AUTHORITY
    path.write_text(f"{NOTE}{chain}{KEY}" if key_after else f"{KEY}{NOTE}{chain}")
    for options in (
        TlsOptions(keystore_location=str(path), key_password=PASSWORD),
        TlsOptions(certificate_location=str(path), key_password=PASSWORD),
        TlsOptions(certificate_location=str(path), key_location=str(path), key_password=PASSWORD),
        TlsOptions(certificate_pem=path.read_text(), key_password=PASSWORD),
    ):
        assert chain_sent(options) == [ssl.PEM_cert_to_DER_cert(pem) for pem in (CERTIFICATE, AUTHORITY)]


@pytest.mark.parametrize("broken", [" ", "\r\n", "\t\n ", ""])
def test_white_space_between_the_base64_does_not_matter(broken: str) -> None:
    """As in Java. Environment variables and folded YAML have spaces in place of line breaks."""
    key, certificate, authority = (folded(pem, broken) for pem in (KEY, CERTIFICATE, AUTHORITY))
    options = TlsOptions(
        keystore_key=key,
        keystore_chain=f"{certificate} {authority}",
        key_password=PASSWORD,
        truststore_certificates=f"{certificate} {authority}",
    )
    expected = [ssl.PEM_cert_to_DER_cert(pem) for pem in (CERTIFICATE, AUTHORITY)]
    assert chain_sent(options) == expected
    assert trusted_certificates(options) == f"{CERTIFICATE.strip()}\n{AUTHORITY.strip()}\n"


def test_a_key_that_is_encrypted_in_the_old_way() -> None:
    """Its block has headers, and an empty line after them."""
    key = serialization.load_pem_private_key(KEY.encode(), PASSWORD.encode())
    old = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    ).decode()
    assert "\nProc-Type: 4,ENCRYPTED\n" in old
    for text in (old, old.replace("\n", "\r\n")):
        chain_sent(TlsOptions(keystore_key=text, keystore_chain=CERTIFICATE, key_password=PASSWORD))
