"""The properties of TLS, under Java's names and librdkafka's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, one_of, option

STORE_TYPES = ("JKS", "PKCS12", "PEM")
PROTOCOLS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
"""The versions of TLS, the oldest first."""


def _endpoint_identification(text: str) -> bool:
    if text.lower() not in ("https", "none", ""):
        raise ConfigError("expected https, or none to turn it off")
    return text.lower() == "https"


def _protocols(text: str) -> tuple[str, ...]:
    parse = one_of(*PROTOCOLS)
    found = {parse(word) for word in re.split(r"[,\s]+", text) if word}
    if not found:
        raise ConfigError(f"expected some of {', '.join(PROTOCOLS)}, separated by commas")
    return tuple(protocol for protocol in PROTOCOLS if protocol in found)


def _words(text: str) -> tuple[str, ...]:
    """Parse words with commas between them, as Java has them, or colons, as librdkafka has them."""
    return tuple(filter(None, re.split(r"[,:\s]+", text)))


def _pem(text: str) -> str:
    """Replace the \\n that properties files write in PEM text by line breaks."""
    return text.replace("\\n", "\n")


def _secret_pem(key: str) -> str | None:
    text: str | None = option(key, None, _pem, is_secret=True)
    return text


@dataclass(frozen=True)
class TlsOptions:
    """The authorities to trust, the certificate to present, and the protocols and ciphers to use."""

    # Whom to trust
    truststore_location: str | None = option("ssl.truststore.location", None, str)
    truststore_password: str | None = option("ssl.truststore.password", None, str, is_secret=True)
    truststore_type: str | None = option("ssl.truststore.type", None, one_of(*STORE_TYPES))
    """The type as given; what a file contains is recognised, and a type that contradicts it is refused."""
    truststore_certificates: str | None = _secret_pem("ssl.truststore.certificates")
    ca_location: str | None = option("ssl.ca.location", None, str)
    ca_pem: str | None = _secret_pem("ssl.ca.pem")
    crl_location: str | None = option("ssl.crl.location", None, str)
    identify_endpoint: bool = option("ssl.endpoint.identification.algorithm", True, _endpoint_identification)
    """True if the broker's certificate must be for the host that the client connects to."""
    verify: bool = option("enable.ssl.certificate.verification", True, boolean)

    # Which certificate to show
    keystore_location: str | None = option("ssl.keystore.location", None, str)
    keystore_password: str | None = option("ssl.keystore.password", None, str, is_secret=True)
    keystore_type: str | None = option("ssl.keystore.type", None, one_of(*STORE_TYPES))
    keystore_key: str | None = _secret_pem("ssl.keystore.key")
    keystore_chain: str | None = _secret_pem("ssl.keystore.certificate.chain")
    certificate_location: str | None = option("ssl.certificate.location", None, str)
    certificate_pem: str | None = _secret_pem("ssl.certificate.pem")
    key_location: str | None = option("ssl.key.location", None, str)
    key_pem: str | None = _secret_pem("ssl.key.pem")
    key_password: str | None = option("ssl.key.password", None, str, is_secret=True)

    # How to speak
    protocol: str = option("ssl.protocol", "TLSv1.3", one_of(*PROTOCOLS, "TLS", "SSL"))
    enabled_protocols: tuple[str, ...] = option("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), _protocols)
    cipher_suites: tuple[str, ...] = option("ssl.cipher.suites", (), _words)
    """Names of the IANA, as in Java, or of OpenSSL, as in librdkafka. None: those that OpenSSL offers by default."""

    def check(self) -> None:
        """Check that the properties fit each other, by Kafka's rules for stores (KIP-651).

        Raises:
            ConfigError: They do not.
        """
        trusted = {
            "ssl.truststore.location": self.truststore_location,
            "ssl.truststore.certificates": self.truststore_certificates,
            "ssl.ca.location": self.ca_location,
            "ssl.ca.pem": self.ca_pem,
        }
        own = {
            "ssl.keystore.location": self.keystore_location,
            "ssl.keystore.key": self.keystore_key,
            "ssl.certificate.location": self.certificate_location,
            "ssl.certificate.pem": self.certificate_pem,
        }
        for places in (trusted, own):
            found = [key for key, value in places.items() if value]
            if len(found) > 1:
                raise ConfigError(f"{' and '.join(found)} contradict each other; keep one of them")
        self._check_store("truststore", self.truststore_type, self.truststore_password, self.truststore_certificates)
        self._check_store("keystore", self.keystore_type, self.keystore_password, self.keystore_key)
        self._check_pair("ssl.keystore.key", self.keystore_key, "ssl.keystore.certificate.chain", self.keystore_chain)
        if self.key_location and self.key_pem:
            raise ConfigError("ssl.key.location and ssl.key.pem contradict each other; keep one of them")
        if (self.key_location or self.key_pem) and not (self.certificate_location or self.certificate_pem):
            key = "ssl.key.location" if self.key_location else "ssl.key.pem"
            raise ConfigError(f"{key} is set without its certificate; set ssl.certificate.location, too")

    def _check_store(self, name: str, kind: str | None, password: str | None, text: str | None) -> None:
        if text and kind not in (None, "PEM"):
            key = f"ssl.{name}.{'certificates' if name == 'truststore' else 'key'}"
            raise ConfigError(f"{key} is PEM text, and ssl.{name}.type={kind}; set ssl.{name}.type=PEM")
        if password and (text or kind == "PEM"):
            instead = "; a key's password is ssl.key.password" if name == "keystore" else ""
            raise ConfigError(f"ssl.{name}.password does not go with PEM, which has no such password{instead}")
        if password and not getattr(self, f"{name}_location"):
            raise ConfigError(f"ssl.{name}.password is set, and ssl.{name}.location is not")

    @staticmethod
    def _check_pair(one: str, first: str | None, other: str, second: str | None) -> None:
        if bool(first) != bool(second):
            given, missing = (one, other) if first else (other, one)
            raise ConfigError(f"{given} is set, and {missing} is not; a certificate needs both")

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the options name."""
        named = (
            *(self.truststore_location, self.ca_location, self.crl_location),
            *(self.keystore_location, self.certificate_location, self.key_location),
        )
        return tuple(filter(None, named))

    @property
    def has_certificate(self) -> bool:
        """Return whether the client has a certificate to show."""
        return bool(self.keystore_location or self.keystore_key or self.certificate_location or self.certificate_pem)
