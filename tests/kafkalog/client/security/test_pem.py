"""Tests of PEM text as people keep it: with notes around the blocks."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.stores import trusted_certificates
from kafkalog.client.security.tls import make_ssl_context
from kafkalog.client.security.tls_options import TlsOptions

STORES = Path(__file__).parents[3] / "golden" / "stores"
AUTHORITY = (STORES / "authority.pem").read_text()
CLIENT = (STORES / "client.pem").read_text()
CUT = CLIENT.index("-----BEGIN CERTIFICATE")
KEY, CERTIFICATE = CLIENT[:CUT], CLIENT[CUT:]
NOTE = "# NetLock Arany (Class Gold) Főtanúsítvány\n"


def trusted(options: TlsOptions) -> list[bytes]:
    return make_ssl_context(options).get_ca_certs(binary_form=True)


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
