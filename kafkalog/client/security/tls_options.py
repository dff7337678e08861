"""The properties of TLS, under Java's names and librdkafka's."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.client.errors import ConfigError
from kafkalog.client.options import option


@dataclass(frozen=True)
class TlsOptions:
    """Whom to trust, which certificate to show, and how to speak."""

    ca_location: str | None = option("ssl.ca.location", None, str)
    ca_pem: str | None = option("ssl.truststore.certificates", None, str)
    truststore_location: str | None = option("ssl.truststore.location", None, str)
    truststore_type: str = option("ssl.truststore.type", "", str)
    certificate_location: str | None = option("ssl.certificate.location", None, str)
    key_location: str | None = option("ssl.key.location", None, str)
    key_password: str | None = option("ssl.key.password", None, str, is_secret=True)
    keystore_location: str | None = option("ssl.keystore.location", None, str)
    keystore_type: str = option("ssl.keystore.type", "", str)
    keystore_certificate_chain: str | None = option("ssl.keystore.certificate.chain", None, str)
    keystore_key: str | None = option("ssl.keystore.key", None, str, is_secret=True)
    endpoint_identification: str = option("ssl.endpoint.identification.algorithm", "https", str)

    def check(self) -> None:
        """Check that the properties fit each other.

        Raises:
            ConfigError: They do not.
        """
        for name in ("truststore", "keystore"):
            kind = getattr(self, f"{name}_type").upper()
            location = getattr(self, f"{name}_location")
            if (location and kind != "PEM") or kind not in ("", "PEM"):
                raise ConfigError(
                    f"ssl.{name}.type={kind or 'JKS'}: only PEM files can be read; convert the store "
                    f"(keytool -importkeystore to PKCS12, openssl pkcs12 to PEM) and set ssl.{name}.type=PEM"
                )
