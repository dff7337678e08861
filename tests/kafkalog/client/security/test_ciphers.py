"""Tests of versions of TLS and cipher suites under Java's names."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.client.security import ciphers
from kafkalog.client.security.ciphers import openssl_name, restrict
from kafkalog.client.security.tls_options import TlsOptions

GCM = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
NEW = "TLS_AES_256_GCM_SHA384"
V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def old_names(context: ssl.SSLContext) -> set[str]:
    return {cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")}


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        (TlsOptions(), (V1_2, V1_3)),
        (TlsOptions(enabled_protocols=("TLSv1.2",)), (V1_2, V1_2)),
        (TlsOptions(enabled_protocols=("TLSv1.3",)), (V1_3, V1_3)),
        (TlsOptions(protocol="TLSv1.2"), (V1_2, V1_2)),
        (TlsOptions(protocol="TLS", enabled_protocols=("TLSv1.1", "TLSv1.2")), (ssl.TLSVersion.TLSv1_1, V1_2)),
        (TlsOptions(cipher_suites=(GCM,)), (V1_2, V1_2)),
        (TlsOptions(cipher_suites=(NEW,)), (V1_3, V1_3)),
        (TlsOptions(cipher_suites=(NEW, GCM)), (V1_2, V1_3)),
    ],
)
def test_versions(
    context: ssl.SSLContext, options: TlsOptions, versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> None:
    restrict(context, options)
    assert (context.minimum_version, context.maximum_version) == versions


def test_a_version_between_others_is_left_out(context: ssl.SSLContext) -> None:
    restrict(context, TlsOptions(enabled_protocols=("TLSv1.1", "TLSv1.3")))
    assert context.options & ssl.OP_NO_TLSv1_2


def test_suites_by_the_names_of_java_and_of_openssl(context: ssl.SSLContext) -> None:
    restrict(context, TlsOptions(cipher_suites=(GCM, "ECDHE-ECDSA-AES128-GCM-SHA256")))
    assert old_names(context) == {"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (TlsOptions(cipher_suites=("TLS_NO_WITH_SUCH",)), "ssl.cipher.suites=TLS_NO_WITH_SUCH"),
        (TlsOptions(cipher_suites=(GCM,), enabled_protocols=("TLSv1.3",)), "has no suite for"),
        (TlsOptions(protocol="TLSv1.2", enabled_protocols=("TLSv1.3",)), "raise ssl.protocol"),
    ],
)
def test_nothing_is_left(context: ssl.SSLContext, options: TlsOptions, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        restrict(context, options)


def test_what_python_cannot_do_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    ciphers._warn.cache_clear()
    options = TlsOptions(cipher_suites=(NEW, GCM, "TLS_RSA_WITH_SEED_CBC_SHA"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), options)
    missing = [text for text in caplog.messages if "does not have TLS_RSA_WITH_SEED_CBC_SHA" in text]
    unrestricted = [text for text in caplog.messages if "Python cannot restrict the suites of TLS 1.3" in text]
    assert len(missing) == 1
    assert len(unrestricted) == (0 if hasattr(ssl.SSLContext, "set_ciphersuites") else 1)
    assert len(caplog.messages) == len(missing) + len(unrestricted)


@pytest.mark.usefixtures("processes")
def test_openssl_calls_the_suites_so() -> None:
    """All suites that Java has too: certificates of RSA, DSA and ECDSA, and no pre-shared keys."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl program")
    command = ["openssl", "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    pairs = [(words[0], words[2]) for words in map(str.split, printed.splitlines())]
    exchanges = ("RSA", "DHE_RSA", "DHE_DSS", "ECDHE_RSA", "ECDHE_ECDSA")
    usual = [
        (iana, name)
        for iana, name in pairs
        if "ARIA" not in iana and iana.removeprefix("TLS_").partition("_WITH_")[0] in exchanges
    ]
    assert len(usual) > 40
    assert [(iana, openssl_name(iana)) for iana, _ in usual] == usual
