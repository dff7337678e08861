"""TLS contexts from the client's configuration. SASL mechanisms are in `kafkalog.protocol.wire.sasl`."""

from __future__ import annotations

import os
import ssl
import tempfile

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.security.tls_options import TlsOptions


def make_ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """Make a context that verifies the broker's certificate, and its name too unless that is turned off.

    Raises:
        ConfigError: A PEM file cannot be used.
    """
    options = config.tls
    check_name = options.endpoint_identification.lower()
    if check_name not in ("https", "", "none"):
        raise ConfigError(f"ssl.endpoint.identification.algorithm={check_name}: expected https, or none to turn it off")
    ca_file = options.ca_location or options.truststore_location
    try:
        if ca_file or options.ca_pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cafile=ca_file, cadata=_unfold(options.ca_pem))
        else:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read trusted certificates from {ca_file or 'the PEM text given'}: {error}") from None
    context.check_hostname = check_name == "https"
    _load_own_certificate(context, options)
    return context


def _load_own_certificate(context: ssl.SSLContext, options: TlsOptions) -> None:
    password = options.key_password
    try:
        if options.keystore_certificate_chain and options.keystore_key:
            # The ssl module can read keys only from files.
            chain, key = _unfold(options.keystore_certificate_chain), _unfold(options.keystore_key)
            handle, path = tempfile.mkstemp(suffix=".pem")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(f"{key}\n{chain}\n")
                context.load_cert_chain(path, password=password)
            finally:
                os.unlink(path)
        elif options.keystore_location:
            context.load_cert_chain(options.keystore_location, password=password)
        elif options.certificate_location:
            context.load_cert_chain(options.certificate_location, options.key_location, password)
    except (OSError, ValueError) as error:
        path = options.keystore_location or options.certificate_location or "ssl.keystore.key"
        raise ConfigError(f"cannot use the client certificate and key of {path}: {error}") from None


def _unfold(pem: str | None) -> str | None:
    """Replace the \\n that properties files write in PEM text by line breaks."""
    return None if pem is None else pem.replace("\\n", "\n")
