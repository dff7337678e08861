"""Find out why a listener does not take a connection, from the error and by asking the listener."""

from __future__ import annotations

import ssl

from kafkalog.client.config import ClientConfig
from kafkalog.client.network import probe, refusals
from kafkalog.client.security.tls import TlsContexts


class Diagnosis:
    """Says for one listener which property of the client does not fit it; None where that is unknown.

    Args:
        host: The broker's host.
        port: The listener's port.
        config: The client's configuration.
        tls: The context of its connections.
    """

    def __init__(self, host: str, port: int, config: ClientConfig, tls: TlsContexts) -> None:
        self._host = host
        self._port = port
        self._config = config
        self._tls = tls

    @property
    def _address(self) -> str:
        return f"{self._host}:{self._port}"

    def tls_handshake(self, error: OSError) -> str | None:
        """Say why the TLS handshake has failed."""
        is_told = isinstance(error, ssl.SSLError) and not _has_ended(error)
        if isinstance(error, ssl.SSLError) and is_told and not _may_be_plaintext(error):
            return refusals.tls_failure(self._address, self._config.tls, error)
        if probe.speaks_plaintext(self._host, self._port):
            return refusals.plaintext_listener(self._address, self._config)
        if isinstance(error, ssl.SSLError) and is_told:
            return refusals.tls_failure(self._address, self._config.tls, error)
        return None

    def handshake(self, error: Exception, has_answered: bool) -> str | None:
        """Say why the handshake of Kafka's protocol has failed, and its peer perhaps `has_answered` before."""
        config, cause = self._config, error.__cause__
        if not config.uses_ssl:
            is_tls = not has_answered and probe.speaks_tls(self._host, self._port)
            return refusals.tls_listener(self._address, config) if is_tls else None
        if not isinstance(cause, ssl.SSLError) or _has_ended(cause):
            cause = None if has_answered else probe.tls_alert(self._host, self._port, self._tls())
        return None if cause is None else refusals.tls_failure(self._address, config.tls, cause)

    def first_request(self) -> str | None:
        """Say why the listener has closed a connection without SASL at its first request, as Apache Kafka does."""
        context = self._tls() if self._config.uses_ssl else None
        offered = probe.sasl_mechanisms(self._host, self._port, context)
        return None if offered is None else refusals.sasl_listener(self._address, self._config, offered)


def _may_be_plaintext(error: ssl.SSLError) -> bool:
    """Tell whether the alert is one by which kafkalog's broker answers TLS on a listener without it."""
    return "ALERT_PROTOCOL_VERSION" in (error.reason or "")


def _has_ended(error: ssl.SSLError) -> bool:
    """Tell whether the peer has just closed the connection, without an alert."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or "UNEXPECTED_EOF" in (error.reason or "")
