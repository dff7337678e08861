"""The versions of TLS and the cipher suites that a context may use, under Java's names.

Python lets OpenSSL choose among all suites of TLS 1.3; only those of older versions can be restricted. From the release
on that has `SSLContext.set_ciphersuites`, those of TLS 1.3 are restricted, too.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Sequence
from functools import cache

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.tls_options import PROTOCOLS, TlsOptions

logger = logging.getLogger(__name__)

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_WITHOUT = {
    "TLSv1.1": ssl.OP_NO_TLSv1_1,
    "TLSv1.2": ssl.OP_NO_TLSv1_2,
}
_OF_TLS_1_3 = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
_IANA = re.compile(r"(?:TLS|SSL)_(\w+?)_WITH_(\w+)")


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2 or older that Java has.

    A name that is not the IANA's comes back unchanged.
    """
    match = _IANA.fullmatch(suite)
    if match is None:
        return suite
    exchange, cipher = match[1].replace("_", "-"), match[2]
    cipher = cipher.replace("3DES_EDE_CBC_", "DES-CBC3_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    cipher = re.sub(r"^(AES|CAMELLIA)_(\d+)_", r"\1\2_", cipher).replace("_CBC_", "_").replace("CCM_8", "CCM8")
    cipher = cipher.replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"


def restrict(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Let a context use only the versions and cipher suites that the options allow.

    Raises:
        ConfigError: The options leave nothing to use.
    """
    versions = _versions(options)
    suites = options.cipher_suites
    newest = [suite for suite in suites if suite in _OF_TLS_1_3]
    older = [suite for suite in suites if suite not in _OF_TLS_1_3]
    if suites:
        # As Java, which speaks only versions that have a suite.
        versions = [version for version in versions if (newest if version == "TLSv1.3" else older)]
    if not versions:
        raise ConfigError("ssl.cipher.suites has no suite for ssl.protocol and ssl.enabled.protocols; add one")
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]
    for version in PROTOCOLS[PROTOCOLS.index(versions[0]) : PROTOCOLS.index(versions[-1])]:
        if version not in versions:
            context.options |= _WITHOUT[version]
    if older and versions != ["TLSv1.3"]:
        _set_older(context, older)
    if newest:
        _set_newest(context, newest)


def _versions(options: TlsOptions) -> list[str]:
    """Return the versions to speak: the enabled ones, up to `ssl.protocol`."""
    newest = options.protocol if options.protocol in PROTOCOLS else PROTOCOLS[-1]
    up_to = PROTOCOLS[: PROTOCOLS.index(newest) + 1]
    found = [version for version in options.enabled_protocols if version in up_to]
    if not found:
        raise ConfigError(
            f"ssl.enabled.protocols={','.join(options.enabled_protocols)}: none of them is allowed by "
            f"ssl.protocol={options.protocol}; raise ssl.protocol"
        )
    return found


def _set_older(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    names = {openssl_name(suite): suite for suite in suites}
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise ConfigError(f"ssl.cipher.suites={','.join(suites)}: OpenSSL has none of them") from None
    missing = names.keys() - {cipher["name"] for cipher in context.get_ciphers()}
    if missing:
        _warn(f"ssl.cipher.suites: OpenSSL does not have {', '.join(sorted(names[name] for name in missing))}")


def _set_newest(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    choose = getattr(context, "set_ciphersuites", None)
    if choose is not None:
        choose(":".join(suites))
        return
    offered = {cipher["name"] for cipher in context.get_ciphers() if cipher["name"] in _OF_TLS_1_3}
    if offered != set(suites):
        _warn(
            "ssl.cipher.suites: Python cannot restrict the suites of TLS 1.3; all of them are offered: "
            f"{', '.join(sorted(offered))} (ssl.enabled.protocols=TLSv1.2 leaves TLS 1.3 out)"
        )


@cache
def _warn(text: str) -> None:
    """Log a warning once, however many connections have the same cause for it."""
    logger.warning("%s", text)
