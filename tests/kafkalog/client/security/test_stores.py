"""Tests of stores of certificates: what Java's keytool wrote is read, and each error names the option to change."""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import os
import random
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.errors import ConfigError
from kafkalog.client.security import jks, pkcs12_keys
from kafkalog.client.security.stores import identity, trusted_certificates
from kafkalog.client.security.tls import make_ssl_context
from kafkalog.client.security.tls_options import TlsOptions
from peers.security.certificates import PASSWORD
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD
from tests.support.amount import examples

STORES = Path(__file__).parents[3] / "golden" / "stores"
AUTHORITY = (STORES / "authority.pem").read_text()
CLIENT = (STORES / "client.pem").read_text()
CUT = CLIENT.index("-----BEGIN CERTIFICATE")
KEY, CERTIFICATE = CLIENT[:CUT], CLIENT[CUT:]
TRUST = ["trust.jks", "trust.p12", "trust_legacy.p12"]
KEYS = ["key.jks", "key.p12", "key_legacy.p12"]
DEFAULTS = [
    f"{java}/{{}}.{kind}" for java in ("java8", "java11", "java17", "java21", "java25") for kind in ("jks", "p12")
]
"""Paths of the stores that the keytools of these releases write by default."""


def trust(file: str | Path, **more: Any) -> TlsOptions:
    return TlsOptions(**{"truststore_location": str(STORES / file), "truststore_password": STORE_PASSWORD, **more})


def own(file: str | Path, **more: Any) -> TlsOptions:
    password = {"key_password": KEY_PASSWORD} if str(file).endswith("key.jks") else {}
    return TlsOptions(
        **{"keystore_location": str(STORES / file), "keystore_password": STORE_PASSWORD, **password, **more}
    )


def refusal(options: TlsOptions) -> str:
    with pytest.raises(ConfigError) as caught:
        make_ssl_context(options)
    message = str(caught.value)
    assert "\n" not in message
    assert STORE_PASSWORD not in message
    assert KEY_PASSWORD not in message
    return message


@pytest.mark.parametrize("file", [*TRUST, *(path.format("trust") for path in DEFAULTS)])
@pytest.mark.parametrize("kind", [None, "JKS", "PKCS12"])
def test_trusted_certificates(file: str, kind: str | None) -> None:
    """The type may be wrong, as in Java: the contents decide between JKS and PKCS #12."""
    expected = ssl.PEM_cert_to_DER_cert(AUTHORITY)
    assert trusted_certificates(trust(file, truststore_type=kind)) == expected
    assert make_ssl_context(trust(file, truststore_type=kind)).get_ca_certs(binary_form=True) == [expected]


@pytest.mark.parametrize("file", [*KEYS, *(path.format("key") for path in DEFAULTS)])
def test_a_key_with_its_chain(file: str) -> None:
    found = identity(own(file))
    assert found is not None
    certificates = [ssl.PEM_cert_to_DER_cert(pem) for pem in (CERTIFICATE, AUTHORITY)]
    assert found.certificates == "".join(map(ssl.DER_cert_to_PEM_cert, certificates))
    # OpenSSL refuses a key that does not belong to the certificate.
    make_ssl_context(own(file))
    assert found.key not in repr(found)


@pytest.mark.parametrize("file", [*KEYS, *(path.format("key") for path in DEFAULTS)])
def test_the_certificates_of_keys_are_trusted_but_not_their_issuers(file: str) -> None:
    """As in Java."""
    make_ssl_context(trust(file))
    assert trusted_certificates(trust(file)) == ssl.PEM_cert_to_DER_cert(CERTIFICATE)


@pytest.mark.parametrize("copies", [1, 2])
def test_an_issuer_that_is_also_an_entry_of_its_own_is_trusted(copies: int, tmp_path: Path) -> None:
    """keytool writes it twice: for the key's chain, and for its own entry."""
    path = tmp_path / "both.p12"
    key = serialization.load_pem_private_key(KEY.encode(), PASSWORD.encode())
    own, authority = (x509.load_pem_x509_certificate(pem.encode()) for pem in (CERTIFICATE, AUTHORITY))
    issuers = [pkcs12.PKCS12Certificate(authority, name) for name in (b"CN=authority", b"authority")[:copies]]
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, own, issuers, encryption))  # type: ignore[arg-type]
    expected = ssl.PEM_cert_to_DER_cert(AUTHORITY) * (copies - 1) + ssl.PEM_cert_to_DER_cert(CERTIFICATE)
    assert trusted_certificates(trust(path)) == expected


def test_a_store_of_openssl_with_certificates_only_is_trusted(tmp_path: Path) -> None:
    """Its certificates lack Java's attribute."""
    path = tmp_path / "openssl.p12"
    authority = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(AUTHORITY.encode()), b"authority")
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [authority], encryption))
    assert trusted_certificates(trust(path)) == ssl.PEM_cert_to_DER_cert(AUTHORITY)


def element(tag: int, *parts: bytes) -> bytes:
    """Return a DER element."""
    content = b"".join(parts)
    size = len(content)
    digits = size.to_bytes(-(-size.bit_length() // 8))
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 | len(digits)]) + digits) + content


def numbered(dotted: str) -> bytes:
    """Return the DER of an object identifier, by its bytes in hexadecimal digits."""
    return element(6, bytes.fromhex(dotted))


def encrypted_as_a_whole(keys: int) -> bytes:
    """Return a PKCS #12 store with one part, which is encrypted: private keys, each with its certificate."""
    key = serialization.load_pem_private_key(KEY.encode(), PASSWORD.encode())
    plain = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = element(
        0x30, numbered("2a864886f70d01091601"), element(0xA0, element(4, ssl.PEM_cert_to_DER_cert(CERTIFICATE)))
    )
    bags = [("2a864886f70d010c0a0101", plain)] * keys + [("2a864886f70d010c0a0103", certificate)]
    text = element(0x30, *(element(0x30, numbered(kind), element(0xA0, each)) for kind, each in bags))
    text += bytes([16 - len(text) % 16]) * (16 - len(text) % 16)
    salt, vector = b"s" * 16, b"v" * 16
    derived = hashlib.pbkdf2_hmac("sha256", STORE_PASSWORD.encode(), salt, 1000, 32)
    encryptor = Cipher(algorithms.AES(derived), modes.CBC(vector)).encryptor()
    pbkdf2 = element(
        0x30, element(4, salt), element(2, b"\x03\xe8"), element(0x30, numbered("2a864886f70d0209"), element(5))
    )
    scheme = element(
        0x30,
        numbered("2a864886f70d01050d"),
        element(
            0x30,
            element(0x30, numbered("2a864886f70d01050c"), pbkdf2),
            element(0x30, numbered("60864801650304012a"), element(4, vector)),
        ),
    )
    content = element(
        0x30, numbered("2a864886f70d010701"), scheme, element(0x80, encryptor.update(text) + encryptor.finalize())
    )
    part = element(0x30, numbered("2a864886f70d010706"), element(0xA0, element(0x30, element(2, b"\0"), content)))
    safe = element(0x30, numbered("2a864886f70d010701"), element(0xA0, element(4, element(0x30, part))))
    return element(0x30, element(2, b"\3"), safe)


def test_keys_within_an_encrypted_part_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "whole.p12"
    path.write_bytes(encrypted_as_a_whole(1))
    found = identity(own(path))
    assert found is not None
    path.write_bytes(encrypted_as_a_whole(2))
    assert "it holds 2 private keys, and nothing says which one to use" in refusal(own(path))
    assert "it holds 2 private keys" in refusal(trust(path))


CERTIFICATE_BAG = bytes.fromhex("060b2a864886f70d010c0a0103")


@pytest.mark.parametrize("file", ["key.p12", *(f"{java}/key.p12" for java in ("java17", "java21", "java25"))])
def test_what_keytools_encrypt_is_looked_into(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their certificates are encrypted, the key has a part of its own."""
    data = (STORES / file).read_bytes()
    assert pkcs12_keys.count_encrypted_keys(data, STORE_PASSWORD.encode()) == 0
    monkeypatch.setattr(pkcs12_keys, "_KEYS", (CERTIFICATE_BAG,))
    assert pkcs12_keys.count_encrypted_keys(data, STORE_PASSWORD.encode()) == 2


def test_parts_in_triple_des_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    key = serialization.load_pem_private_key(KEY.encode(), PASSWORD.encode())
    own = x509.load_pem_x509_certificate(CERTIFICATE.encode())
    builder = serialization.PrivateFormat.PKCS12.encryption_builder()
    builder = builder.key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
    data = pkcs12.serialize_key_and_certificates(b"c", key, own, None, builder.build(b"p\xc3\xa4ss"))  # type: ignore[arg-type]
    monkeypatch.setattr(pkcs12_keys, "_KEYS", (CERTIFICATE_BAG,))
    assert pkcs12_keys.count_encrypted_keys(data, b"p\xc3\xa4ss") == 1
    assert pkcs12_keys.count_encrypted_keys(data, b"wrong") == 0


@given(st.binary(max_size=300))
def test_any_bytes_have_no_keys(data: bytes) -> None:
    assert pkcs12_keys.count_encrypted_keys(data, b"p") == 0


def test_jks_needs_no_password_for_certificates() -> None:
    assert trusted_certificates(trust("trust.jks", truststore_password=None)) is not None


def test_every_bit_of_a_jks_store_counts() -> None:
    """Its digest finds each change, where a password is given."""
    data = (STORES / "trust.jks").read_bytes()
    chance = random.Random(3)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        with pytest.raises((jks.StoreFormatError, jks.WrongPasswordError)):
            jks.parse_jks(bytes(changed), STORE_PASSWORD)


@pytest.mark.parametrize("file", [*TRUST, *KEYS])
def test_a_store_that_is_cut_off(file: str, tmp_path: Path) -> None:
    data = (STORES / file).read_bytes()
    is_key = file in KEYS
    for size in sorted({0, 1, 3, 4, 8, 11, 12, 13, *range(20, len(data), 97), len(data) - 1}):
        cut = tmp_path / file
        cut.write_bytes(data[:size])
        message = refusal(own(cut) if is_key else trust(cut))
        assert message.startswith("ssl.keystore." if is_key else "ssl.truststore.")
        assert str(cut) in message


@given(
    st.sampled_from([*TRUST, *KEYS]),
    st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=8), st.integers(0, 8)), min_size=1, max_size=4),
    st.booleans(),
)
def test_changed_stores_are_read_or_refused(
    file: str, changes: list[tuple[int, bytes, int]], with_password: bool
) -> None:
    data = bytearray((STORES / file).read_bytes())
    for at, put, removed in changes:
        data[at : at + removed] = put
    password = STORE_PASSWORD if with_password else None
    if not data.startswith(jks.MAGIC):
        return
    try:
        store = jks.parse_jks(bytes(data), password)
        for entry in store.keys:
            entry.key(KEY_PASSWORD)
    except (jks.StoreFormatError, jks.WrongPasswordError):
        assert bytes(data) != (STORES / file).read_bytes()


def test_changed_pkcs12_stores_are_refused(tmp_path: Path) -> None:
    """Whatever the library raises for them becomes one error that names the option."""
    chance = random.Random(5)
    for file in ("trust.p12", "key_legacy.p12"):
        data = (STORES / file).read_bytes()
        for _ in range(examples(200)):
            changed = bytearray(data)
            for _ in range(chance.choice([1, 1, 3])):
                changed[chance.randrange(1, len(data))] ^= 1 << chance.randrange(8)
            path = tmp_path / file
            path.write_bytes(changed)
            try:
                make_ssl_context(own(path) if file.startswith("key") else trust(path))
            except ConfigError as error:
                message = str(error)
            else:
                # A byte that means nothing, as in the name of an entry.
                message = "ssl."
            assert message.startswith("ssl.")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (trust("trust.jks", truststore_password="no"), "ssl.truststore.password: that of {} is wrong"),
        (trust("trust.p12", truststore_password="no"), "ssl.truststore.password: that of {} is wrong"),
        (trust("trust.p12", truststore_password=None), "ssl.truststore.password: that of {} is missing"),
        (own("key.jks", keystore_password="no"), "ssl.keystore.password: that of {} is wrong"),
        (own("key.jks", keystore_password=None), "{}: ssl.keystore.password is missing"),
        (own("key.jks", key_password="no"), "ssl.key.password: that of the key in {} is wrong"),
        (own("key.jks", key_password=None), "ssl.key.password: that of the key in {} is missing"),
        (own("key.p12", keystore_password="no"), "ssl.keystore.password: that of {} is wrong"),
        (own("trust.jks"), "ssl.keystore.location={}: it holds no private key"),
        (own("trust.p12"), "ssl.keystore.location={}: it holds no private key"),
        (own("two_keys.jks", key_password=KEY_PASSWORD), "ssl.keystore.location={}: it holds 2 private keys"),
        (own("two_keys.p12"), "ssl.keystore.location={}: it holds 2 private keys"),
        (trust("two_keys.p12"), "ssl.truststore.location={}: it holds 2 private keys"),
        (trust("absent"), "ssl.truststore.location={}: cannot be read: No such file"),
        (own("absent"), "ssl.keystore.location={}: cannot be read: No such file"),
        (trust("."), "ssl.truststore.location={}: cannot be read: Is a directory"),
        (trust("authority.pem"), "ssl.truststore.password does not go with {}"),
        (trust("authority.pem", truststore_type="JKS"), "ssl.truststore.type=JKS: {} is PEM; set ssl.truststore.type"),
        (trust("trust.jks", truststore_type="PEM", truststore_password=None), "set ssl.truststore.type=JKS"),
        (own("key.p12", keystore_type="PEM", keystore_password=None), "set ssl.keystore.type=PKCS12"),
        (own("authority.pem", keystore_password=None), "no line -----BEGIN PRIVATE KEY"),
        (
            TlsOptions(keystore_location=str(STORES / "client.pem")),
            "ssl.key.password: the key of ssl.keystore.location",
        ),
        (
            TlsOptions(keystore_location=str(STORES / "client.pem"), key_password="no"),
            "ssl.key.password: the key of ssl.keystore.location is encrypted, and it is wrong",
        ),
        (TlsOptions(keystore_key=KEY + KEY, keystore_chain=CERTIFICATE), "ssl.keystore.key: it has 2 private keys"),
        (
            TlsOptions(keystore_key=KEY, keystore_chain=AUTHORITY, key_password=PASSWORD),
            "ssl.keystore.key: the certificate and the private key cannot be used: key values mismatch",
        ),
        (TlsOptions(keystore_key=KEY, keystore_chain="no PEM"), "ssl.keystore.certificate.chain: it has no line"),
        (TlsOptions(truststore_certificates="no PEM"), "ssl.truststore.certificates: it has no line"),
        (
            TlsOptions(truststore_certificates="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
            "ssl.truststore.certificates: a certificate in it cannot be used",
        ),
        (TlsOptions(ca_location="/absent"), "ssl.ca.location=/absent: cannot be read"),
        (TlsOptions(ca_location=str(STORES / "trust.jks")), "trust.jks: it has no PEM that can be used"),
        (TlsOptions(crl_location="/absent"), "ssl.crl.location=/absent: cannot be read"),
        (TlsOptions(certificate_location="/absent"), "ssl.certificate.location=/absent: cannot be read"),
        (
            TlsOptions(certificate_location=str(STORES / "client.pem"), key_location="/absent"),
            "ssl.key.location=/absent: cannot be read",
        ),
    ],
)
def test_errors_name_the_option(options: TlsOptions, says: str) -> None:
    message = refusal(options)
    path = options.truststore_location or options.keystore_location
    assert says.format(path) in message


def test_old_ciphers_that_openssl_does_not_read_are_named(processes: None) -> None:
    """As in distributions without OpenSSL's legacy provider. It must not only say that the password is wrong."""
    code = (
        "import sys\nfrom kafkalog.client.security.stores import identity\n"
        "from kafkalog.client.security.tls_options import TlsOptions\n"
        "identity(TlsOptions(keystore_location=sys.argv[1], keystore_password=sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(STORES / "java8" / "key.p12"), STORE_PASSWORD],
        env={**os.environ, "CRYPTOGRAPHY_OPENSSL_NO_LEGACY": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    message = done.stderr.splitlines()[-1]
    assert "ssl.keystore.password: that of" in message
    assert "RC2" in message
    assert "keytool -importkeystore" in message


def without_lengths(data: bytes) -> bytes:
    """Write the elements of DER that have parts in BER: with a mark at their ends in the place of lengths."""
    found, at = b"", 0
    while at < len(data):
        begin, size, content = at, data[at + 1], at + 2
        if size & 0x80:
            content += size & 0x7F
            size = int.from_bytes(data[begin + 2 : content])
        at = content + size
        if data[begin] & 0x20:
            found += bytes([data[begin], 0x80]) + without_lengths(data[content:at]) + b"\0\0"
        else:
            found += data[begin:at]
    return found


def test_a_store_in_ber(tmp_path: Path) -> None:
    """It is read while the package does so, which warns of it; else the encoding is named."""
    path = tmp_path / "ber.p12"
    path.write_bytes(without_lengths((STORES / "java17" / "key.p12").read_bytes()))
    with pytest.warns(UserWarning, match="BER"):
        found = identity(own(path))
    assert found == identity(own("java17/key.p12"))
    message = refusal(own(path, keystore_password="no"))
    assert "does not read its encoding, BER; write it anew: keytool -importkeystore" in message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (TlsOptions(ca_location="a", truststore_location="b"), "ssl.truststore.location and ssl.ca.location"),
        (TlsOptions(keystore_location="a", certificate_pem="b"), "ssl.keystore.location and ssl.certificate.pem"),
        (TlsOptions(keystore_key="a"), "ssl.keystore.certificate.chain is not"),
        (TlsOptions(keystore_chain="a"), "ssl.keystore.key is not"),
        (TlsOptions(keystore_key="a", keystore_chain="b", keystore_type="JKS"), "set ssl.keystore.type=PEM"),
        (TlsOptions(truststore_certificates="a", truststore_type="JKS"), "set ssl.truststore.type=PEM"),
        (
            TlsOptions(truststore_certificates="a", truststore_password="p"),
            "ssl.truststore.password does not go with PEM",
        ),
        (TlsOptions(keystore_location="a", keystore_type="PEM", keystore_password="p"), "is ssl.key.password"),
        (TlsOptions(truststore_password="p"), "ssl.truststore.location is not"),
        (TlsOptions(key_location="a"), "ssl.key.location is set without its certificate"),
        (TlsOptions(certificate_location="c", key_location="a", key_pem="b"), "ssl.key.location and ssl.key.pem"),
    ],
)
def test_options_that_contradict_each_other(options: TlsOptions, says: str) -> None:
    assert says in refusal(options)


def test_librdkafka_s_texts() -> None:
    options = TlsOptions(certificate_pem=CERTIFICATE, key_pem=KEY, key_password=PASSWORD, ca_pem=AUTHORITY)
    context = make_ssl_context(options)
    assert context.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(AUTHORITY)]


def test_without_the_package_for_pkcs12(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return importing(name, *args, **more)

    importing = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", absent)
    for options in (trust("trust.p12"), own("key.p12")):
        assert "pip install 'kafkalog[tls]'" in refusal(options)
    make_ssl_context(dataclasses.replace(own("key.jks"), truststore_location=str(STORES / "trust.jks")))


def test_keys_are_written_to_no_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    make_ssl_context(own("key.jks"))


def test_keys_are_in_no_file_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system has no files in memory, as macOS."""
    monkeypatch.delattr("os.memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    make_ssl_context(own("key.jks"))
    refusal(TlsOptions(keystore_key=KEY, keystore_chain=CERTIFICATE, key_password="no"))
    assert list(tmp_path.iterdir()) == []
