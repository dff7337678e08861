"""The broker keys of TLS. Each listener may have values of its own (`listener.name.<listener>.<key>`).

Names and defaults are those of Apache Kafka 3.9 (`SslConfigs`, `BrokerSecurityConfigs`).
"""

from __future__ import annotations

from broker.config.definition import ConfigError, ConfigKey, Scope, Type, Update, Value, one_of

CLIENT_AUTH = "ssl.client.auth"
MAPPING_RULES = "ssl.principal.mapping.rules"
_TYPES = "JKS, PKCS12 or PEM. If it is not set, what the file contains is recognised"
_VERSIONS = ("TLSv1.2", "TLSv1.3")


def _are_versions(name: str, value: Value) -> None:
    for each in value:
        if each not in _VERSIONS:
            remedy = "it is too old to be safe" if each.startswith(("TLSv1", "SSL")) else "it is unknown"
            raise ConfigError(f"Invalid value {each} for configuration {name}: {remedy}; use {', '.join(_VERSIONS)}")
    if not value:
        raise ConfigError(f"Invalid value for configuration {name}: name {' or '.join(_VERSIONS)}")


TLS_KEYS = [
    ConfigKey("ssl.keystore.location", Type.STRING, None, "The file with the broker's certificate, those of its issuers, and its private key. It is read again when it has changed.", scope=Scope.LISTENER, update_of_listener=Update.PER_BROKER),
    ConfigKey("ssl.keystore.password", Type.PASSWORD, None, "The password of that file; PEM has none.", scope=Scope.LISTENER),
    ConfigKey("ssl.keystore.type", Type.STRING, "JKS", f"Its type: {_TYPES}.", one_of("JKS", "PKCS12", "PEM"), scope=Scope.LISTENER, update_of_listener=Update.PER_BROKER),
    ConfigKey("ssl.key.password", Type.PASSWORD, None, "The password of the private key. In a PKCS12 file it is that of the file.", scope=Scope.LISTENER),
    ConfigKey("ssl.keystore.key", Type.PASSWORD, None, "The private key as PEM text (PKCS#8), instead of a file.", scope=Scope.LISTENER),
    ConfigKey("ssl.keystore.certificate.chain", Type.PASSWORD, None, "The broker's certificate and those of its issuers as PEM text, with ssl.keystore.key.", scope=Scope.LISTENER),
    ConfigKey("ssl.truststore.location", Type.STRING, None, "The file with the certificates that are trusted: those of clients, and of the other brokers. It is read again when it has changed. Unset, the system's are.", scope=Scope.LISTENER, update_of_listener=Update.PER_BROKER),
    ConfigKey("ssl.truststore.password", Type.PASSWORD, None, "The password of that file; PEM has none.", scope=Scope.LISTENER),
    ConfigKey("ssl.truststore.type", Type.STRING, "JKS", f"Its type: {_TYPES}.", one_of("JKS", "PKCS12", "PEM"), scope=Scope.LISTENER, update_of_listener=Update.PER_BROKER),
    ConfigKey("ssl.truststore.certificates", Type.PASSWORD, None, "The certificates that are trusted as PEM text, instead of a file.", scope=Scope.LISTENER),
    ConfigKey(CLIENT_AUTH, Type.STRING, "none", "Whether clients show a certificate: required, requested (they may), or none. Listeners of the protocol SASL_SSL only heed the value that is theirs.", one_of("required", "requested", "none"), scope=Scope.LISTENER),
    ConfigKey("ssl.protocol", Type.STRING, "TLSv1.3", "The newest version of TLS that is spoken.", one_of(*_VERSIONS, "TLS"), scope=Scope.LISTENER),
    ConfigKey("ssl.enabled.protocols", Type.LIST, _VERSIONS, "The versions of TLS that are spoken. Older ones are refused.", _are_versions, skips_empty=True, scope=Scope.LISTENER),
    ConfigKey("ssl.cipher.suites", Type.LIST, (), "The cipher suites of TLS 1.2, by their IANA names; unset, those that OpenSSL offers. Python leaves the suites of TLS 1.3 to OpenSSL.", skips_empty=True, scope=Scope.LISTENER),
    ConfigKey("ssl.endpoint.identification.algorithm", Type.STRING, "https", "Whether this broker, when it connects to another one, checks that the certificate is for the host: https, or nothing to turn it off.", one_of("https", "HTTPS", ""), scope=Scope.LISTENER),
    ConfigKey(MAPPING_RULES, Type.STRING, "DEFAULT", "The user that the name in a client's certificate stands for: RULE:expression/replacement/[L|U] or DEFAULT, separated by commas. The first rule that matches decides; if none does, the connection is closed.", scope=Scope.LISTENER),
    ConfigKey("ssl.allow.dn.changes", Type.BOOLEAN, False, "A renewed certificate may always have another name.", effect=False, scope=Scope.LISTENER),
    ConfigKey("ssl.allow.san.changes", Type.BOOLEAN, False, "A renewed certificate may always be for other hosts.", effect=False, scope=Scope.LISTENER),
]  # fmt: skip

JAVA_KEYS = [
    ConfigKey("ssl.provider", Type.STRING, None, "For Java.", effect=False, scope=Scope.LISTENER),
    ConfigKey("ssl.secure.random.implementation", Type.STRING, None, "For Java.", effect=False, scope=Scope.LISTENER),
    ConfigKey("ssl.keymanager.algorithm", Type.STRING, "SunX509", "For Java.", effect=False, scope=Scope.LISTENER),
    ConfigKey("ssl.trustmanager.algorithm", Type.STRING, "PKIX", "For Java.", effect=False, scope=Scope.LISTENER),
    ConfigKey("ssl.engine.factory.class", Type.CLASS, None, "For Java.", effect=False, scope=Scope.LISTENER),
]  # fmt: skip
