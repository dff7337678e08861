"""Say why a broker and a client do not come together, and which property of the client has to change."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kafkalog.client.config import ClientConfig
from kafkalog.client.security.tls_options import TlsOptions

_EXPIRED, _NOT_YET_VALID = 10, 9
_REVOKED, _NO_CRL = 23, 3
_OTHER_NAMES = (62, 63, 64)
"""OpenSSL's numbers (X509_V_ERR_…) of the reasons why a certificate is not accepted."""

_OF_PROTOCOLS = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")
_OF_CERTIFICATES = (
    *("BAD_CERTIFICATE", "CERTIFICATE_REQUIRED", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED"),
    *("UNKNOWN_CA", "UNSUPPORTED_CERTIFICATE", "ACCESS_DENIED", "DECRYPT_ERROR"),
)
"""Parts of OpenSSL's names of alerts by which a broker refuses a client's certificate."""


def tls_failure(address: str, options: TlsOptions, error: ssl.SSLError) -> str:
    """Say why a TLS handshake with the broker at `address` has failed."""
    start = f"TLS handshake with {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{start}: {_unaccepted(options, error)}"
    reason = error.reason or ""
    shown = reason.replace("_", " ").lower() or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"{start}: {_NO_TLS}"
    if any(part in reason for part in _OF_PROTOCOLS):
        return f"{start}: the broker speaks no version of TLS that ssl.enabled.protocols allows ({shown})"
    if any(part in reason for part in _OF_CERTIFICATES) and "ALERT" in reason:
        return f"{start}: {_refused(options)} ({shown})"
    if "HANDSHAKE_FAILURE" in reason or "NO_CIPHERS" in reason or "INSUFFICIENT_SECURITY" in reason:
        wanted = "" if options.has_certificate else ", or it wants a client's certificate (ssl.keystore.location)"
        return (
            f"{start}: the broker accepts none of the versions and cipher suites offered (ssl.enabled.protocols, "
            f"ssl.cipher.suites){wanted} ({shown})"
        )
    return f"{start}: {shown}"


_NO_TLS = (
    "the listener does not speak TLS; set security.protocol to PLAINTEXT or, with SASL, SASL_PLAINTEXT, or connect to "
    "the port of a TLS listener"
)


def plaintext_listener(address: str, config: ClientConfig) -> str:
    """Say that the listener does not speak TLS, and the client does."""
    return f"security.protocol={config.security_protocol} at {address}: {_NO_TLS}"


def tls_listener(address: str, config: ClientConfig) -> str:
    """Say that the listener speaks TLS, and the client does not."""
    fitting = "SASL_SSL" if config.uses_sasl else "SSL"
    return (
        f"security.protocol={config.security_protocol} at {address}: the listener speaks TLS; set "
        f"security.protocol={fitting}, or connect to the port of a listener without TLS"
    )


def sasl_listener(address: str, config: ClientConfig, mechanisms: Sequence[str]) -> str:
    """Say that the listener wants SASL, and the client does not."""
    fitting = "SASL_SSL" if config.uses_ssl else "SASL_PLAINTEXT"
    offered = ", ".join(mechanisms) or "none"
    return (
        f"security.protocol={config.security_protocol} at {address}: the listener wants SASL; set "
        f"security.protocol={fitting} and sasl.mechanism (it offers: {offered})"
    )


def _unaccepted(options: TlsOptions, error: ssl.SSLCertVerificationError) -> str:
    code, said = error.verify_code, error.verify_message
    if code in _OTHER_NAMES:
        return (
            f"the broker's certificate is for another name: {said}; connect by a name that is in it, or set "
            "ssl.endpoint.identification.algorithm=none"
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        return f"the broker's certificate, or its authority's, is not valid now: {said}; it has to be renewed there"
    if code == _REVOKED:
        return "the broker's certificate is revoked (ssl.crl.location)"
    if code == _NO_CRL:
        return "ssl.crl.location has no list of the authority that signed the broker's certificate"
    places = {
        "ssl.truststore.location": options.truststore_location,
        "ssl.truststore.certificates": options.truststore_certificates,
        "ssl.ca.location": options.ca_location,
        "ssl.ca.pem": options.ca_pem,
    }
    named = [place for place, value in places.items() if value]
    if named:
        remedy = f"{named[0]} does not have the certificate of its authority"
    else:
        remedy = "the system's authorities do not vouch for it; set ssl.truststore.location or ssl.ca.location"
    return f"the broker's certificate is not trusted: {said}; {remedy}"


def _refused(options: TlsOptions) -> str:
    if options.has_certificate:
        return (
            "the broker refuses the client's certificate; check ssl.keystore.location, or ssl.certificate.location, "
            "and that the broker trusts its authority"
        )
    return "the broker wants a client's certificate; set ssl.keystore.location, or ssl.certificate.location"
