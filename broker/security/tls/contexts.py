"""The TLS of one listener, made from its keys and checked: for its clients, and for links to other brokers."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, replace
from functools import partial

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.tls import MAPPING_RULES
from broker.security.tls.certificate import Certificate, read_certificate
from broker.security.tls.der import DerError
from broker.security.tls.options import client_auth, of_listener, options_of
from broker.security.tls.principal_rules import PrincipalRules, RulesError
from kafkalog.client.errors import ConfigError as ClientConfigError
from kafkalog.client.security.ciphers import restrict
from kafkalog.client.security.stores import Identity, identity, trusted_certificates
from kafkalog.client.security.tls import make_ssl_context, reason_of, show
from kafkalog.client.security.tls_options import TlsOptions

Signature = tuple[TlsOptions, tuple[tuple[int, int, int] | None, ...]]
"""The options, and when the files that they name were changed."""
_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_ROUNDS = 10
"""More than the flights of any handshake."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The TLS that a listener uses at a time. A connection keeps what it began with."""

    server: ssl.SSLContext
    """For the clients of the listener."""
    client: ssl.SSLContext | None
    """For links to this listener of other brokers, if brokers reach each other by it."""
    certificate: Certificate
    """The broker's own."""
    rules: PrincipalRules
    """The users that the owners of clients' certificates are."""
    signature: Signature
    """The state of the files before they were read."""


def make_contexts(name: str, listener: ListenerConfig, protocol: str, *, between_brokers: bool) -> Contexts:
    """Make the TLS of a listener, and check it.

    Args:
        name: the listener's name.
        listener: its configuration.
        protocol: its security protocol.
        between_brokers: whether brokers reach each other by it.

    Raises:
        ConfigError: a store cannot be used, keys contradict each other, or brokers would not trust each other.
    """
    return of_listener(name, listener, partial(_make, listener, protocol, between_brokers))


def signature_of(options: TlsOptions) -> Signature:
    """Return what tells whether the options, or the files that they name, have changed."""
    return options, tuple(map(_look_at, options.files))


def _make(listener: ListenerConfig, protocol: str, between_brokers: bool) -> Contexts:
    options = options_of(listener)
    # Looked at before the files are read: a change in between is noticed the next time.
    signature = signature_of(options)
    options.check()
    own = identity(options)
    if own is None:
        key = "ssl.keystore.location"
        raise ClientConfigError(
            f"there is no certificate; set {listener.name_to_set(key)}, or {key} for all listeners, to the file that "
            "has it with its key"
        )
    server = _server_context(options, own, client_auth(listener, protocol))
    client = make_ssl_context(options) if between_brokers else None
    if client is not None:
        _check_pair(server, make_ssl_context(replace(options, identify_endpoint=False)))
    return Contexts(server, client, _certificate(own), _rules(listener), signature)


def _server_context(options: TlsOptions, own: Identity, auth: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A peer that asks for new keys again and again would use a whole processor.
    context.options |= ssl.OP_NO_RENEGOTIATION
    restrict(context, options)
    show(context, own)
    context.verify_mode = _MODES[auth]
    if auth == "none":
        return context
    # As in Java, a certificate that is trusted need not be that of a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = trusted_certificates(options)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return context
    try:
        context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        key = "ssl.truststore.location" if options.truststore_location else "ssl.truststore.certificates"
        raise ClientConfigError(f"{key}: a certificate in it cannot be used: {reason_of(error)}") from None
    return context


def _certificate(own: Identity) -> Certificate:
    first, _, _ = own.certificates.partition("-----END CERTIFICATE-----")
    try:
        return read_certificate(ssl.PEM_cert_to_DER_cert(f"{first}-----END CERTIFICATE-----\n"))
    except (DerError, ValueError) as error:
        raise ClientConfigError(f"{own.option}: the certificate cannot be read: {error}") from None


def _rules(listener: ListenerConfig) -> PrincipalRules:
    try:
        return PrincipalRules(listener[MAPPING_RULES])
    except RulesError as error:
        raise ClientConfigError(f"{MAPPING_RULES}: {error}") from None


def _check_pair(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Let the two contexts shake hands in memory: what another broker with the same stores would see.

    Raises:
        ClientConfigError: they cannot.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_ROUNDS):
        waiting = []
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(side)
            except ssl.SSLError as error:
                what = getattr(error, "verify_message", "") or reason_of(error)
                raise ClientConfigError(
                    "brokers reach each other by this listener, and would not trust each other: "
                    f"{what}. ssl.truststore.location needs the certificate of the authority that has signed "
                    "ssl.keystore.location's, which has to be good for servers and clients"
                ) from None
        if not waiting:
            return
    raise ConfigError("the handshake in memory has no end")


def _look_at(path: str) -> tuple[int, int, int] | None:
    try:
        # Follows links: Kubernetes renews a secret by a new target of the link ..data.
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
