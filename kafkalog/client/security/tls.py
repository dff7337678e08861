"""TLS contexts from the client's properties. SASL mechanisms are in `kafkalog.protocol.wire.sasl`."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.ciphers import restrict
from kafkalog.client.security.stores import Identity, identity, read_file, trusted_certificates
from kafkalog.client.security.tls_options import TlsOptions

logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """The TLS context of one client's connections. It is made anew when a file that it came from has changed.

    So new connections use a renewed certificate. While the new files cannot be used, the context before stays in use.
    Several threads may call it.
    """

    def __init__(self, options: TlsOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._made: ssl.SSLContext | None = None
        self._signature: _Signature = ()

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a new connection.

        Raises:
            ConfigError: A store or a file cannot be used, and none could be used before.
        """
        with self._lock:
            # Looked at before the files are read: a change in between is noticed the next time.
            signature = tuple(map(_look_at, self._options.files))
            if self._made is None or signature != self._signature:
                try:
                    self._made = make_ssl_context(self._options)
                except ConfigError as error:
                    if self._made is None:
                        raise
                    logger.warning("the files as they were before stay in use: %s", error)
                self._signature = signature
            return self._made


def make_ssl_context(options: TlsOptions) -> ssl.SSLContext:
    """Make a context that verifies the broker's certificate, and its name too unless that is turned off.

    Raises:
        ConfigError: A store or a file cannot be used, or options contradict each other.
    """
    options.check()
    context = _trusting(options)
    if options.crl_location is not None:
        _load(context, "ssl.crl.location", options.crl_location)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.check_hostname = options.identify_endpoint and options.verify
    if not options.verify:
        context.verify_mode = ssl.CERT_NONE
    restrict(context, options)
    own = identity(options)
    if own is not None:
        show(context, own)
    return context


def _trusting(options: TlsOptions) -> ssl.SSLContext:
    ca_location = options.ca_location if options.ca_location != "probe" else None
    trusted = trusted_certificates(options)
    if ca_location is None and trusted is None:
        return ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Java, a certificate that is trusted need not be that of a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if ca_location is not None:
        _load(context, "ssl.ca.location", ca_location)
        return context
    try:
        context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        named = [
            *(["ssl.truststore.location"] if options.truststore_location else []),
            *(["ssl.truststore.certificates"] if options.truststore_certificates else []),
            *(["ssl.ca.pem"] if options.ca_pem else []),
        ]
        raise ConfigError(f"{named[0]}: a certificate in it cannot be used: {reason_of(error)}") from None
    return context


def _load(context: ssl.SSLContext, option: str, path: str) -> None:
    """Load PEM certificates, or certificates that are revoked, from a file or a directory with hashed names."""
    is_directory = os.path.isdir(path)
    if not is_directory:
        read_file(option, path)
    try:
        context.load_verify_locations(capath=path) if is_directory else context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{option}={path}: it has no PEM that can be used: {reason_of(error)}") from None


def show(context: ssl.SSLContext, own: Identity) -> None:
    """Give the context a certificate and its key.

    Raises:
        ConfigError: They do not belong together, or the key's password is wrong.
    """
    asked = False

    def password() -> str:
        # Without this, OpenSSL would ask on the terminal.
        nonlocal asked
        asked = True
        return own.password or ""

    with _as_file(f"{own.key}\n{own.certificates}\n") as path:
        try:
            context.load_cert_chain(path, password=password)
        except (OSError, ValueError) as error:
            if asked and getattr(error, "reason", None) != "KEY_VALUES_MISMATCH":
                problem = "is missing" if own.password is None else "is wrong"
                raise ConfigError(f"ssl.key.password: the key of {own.option} is encrypted, and it {problem}") from None
            raise ConfigError(
                f"{own.option}: the certificate and the private key cannot be used: {reason_of(error)}"
            ) from None


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give a text a path, which the ssl module wants, but no place on a disk where the system has memory files."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        handle = os.memfd_create("kafkalog", os.MFD_CLOEXEC)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{handle}"
        return
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def _look_at(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def reason_of(error: Exception) -> str:
    """Return what OpenSSL says, without the lines of its own source."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
