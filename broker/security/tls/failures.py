"""The reasons why a handshake fails, in plain words, with the remedy where there is one."""

from __future__ import annotations

import ssl

_NO_VERSION = "client and broker have no version of TLS in common (ssl.enabled.protocols)"
_WORDS = {
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not accepted",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, which ssl.client.auth=required asks for",
    "NO_SHARED_CIPHER": "client and broker have no cipher suite in common (ssl.cipher.suites, and the kind of the key)",
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "WRONG_VERSION_NUMBER": _NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate; give it the authority's",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not trust the broker's certificate, or it is for another host",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds the broker's certificate expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client finds nothing that both sides accept",
}
"""The meaning of OpenSSL's reasons here."""


class HandshakeError(Exception):
    """A peer may not come in; the text says why, and what to do.

    Args:
        why: the text.
        answer: what the peer is sent beside the alert of TLS.
    """

    def __init__(self, why: str, answer: bytes = b"") -> None:
        super().__init__(why)
        self.answer = answer


def of_error(error: ssl.SSLError) -> HandshakeError:
    """Say why OpenSSL has ended a handshake."""
    reason = error.reason or ""
    words = _WORDS.get(reason) or reason.replace("_", " ").lower() or "it has failed"
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        words = f"{words}: {error.verify_message}"
    return HandshakeError(words)
