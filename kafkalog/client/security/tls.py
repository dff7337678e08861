"""TLS contexts from the client's configuration. SASL mechanisms are in `kafkalog.protocol.wire.sasl`."""

from __future__ import annotations

import os
import ssl
import tempfile

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError


def make_ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """Make a context that verifies the broker's certificate, and its name too unless that is turned off.

    Raises:
        ConfigError: A PEM file cannot be used.
    """
    check_name = config.ssl_endpoint_identification_algorithm.lower()
    if check_name not in ("https", "", "none"):
        raise ConfigError(f"ssl.endpoint.identification.algorithm={check_name}: expected https, or none to turn it off")
    ca_file = config.ssl_ca_location or config.ssl_truststore_location
    try:
        if ca_file or config.ssl_ca_pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cafile=ca_file, cadata=_unfold(config.ssl_ca_pem))
        else:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read trusted certificates from {ca_file or 'the PEM text given'}: {error}") from None
    context.check_hostname = check_name == "https"
    _load_own_certificate(context, config)
    return context


def _load_own_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    password = config.ssl_key_password
    try:
        if config.ssl_keystore_certificate_chain and config.ssl_keystore_key:
            # The ssl module can read keys only from files.
            chain, key = _unfold(config.ssl_keystore_certificate_chain), _unfold(config.ssl_keystore_key)
            handle, path = tempfile.mkstemp(suffix=".pem")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(f"{key}\n{chain}\n")
                context.load_cert_chain(path, password=password)
            finally:
                os.unlink(path)
        elif config.ssl_keystore_location:
            context.load_cert_chain(config.ssl_keystore_location, password=password)
        elif config.ssl_certificate_location:
            context.load_cert_chain(config.ssl_certificate_location, config.ssl_key_location, password)
    except (OSError, ValueError) as error:
        path = config.ssl_keystore_location or config.ssl_certificate_location or "ssl.keystore.key"
        raise ConfigError(f"cannot use the client certificate and key of {path}: {error}") from None


def _unfold(pem: str | None) -> str | None:
    """Replace the \\n that properties files write in PEM text by line breaks."""
    return None if pem is None else pem.replace("\\n", "\n")
