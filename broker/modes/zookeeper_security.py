"""Reads from a configuration how the session with ZooKeeper is secured.

Stores of certificates and the text of a login are read by the client's code, which has the same keys without the
beginning `zookeeper.`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.config.zookeeper import JAAS_KEY
from broker.zookeeper.security import Login, Security

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
_EXAMPLE = f'{DIGEST} required username="…" password="…";'
_OPTIONS = {
    "ssl.truststore.location": "zookeeper.ssl.truststore.location",
    "ssl.truststore.password": "zookeeper.ssl.truststore.password",
    "ssl.truststore.type": "zookeeper.ssl.truststore.type",
    "ssl.keystore.location": "zookeeper.ssl.keystore.location",
    "ssl.keystore.password": "zookeeper.ssl.keystore.password",
    "ssl.keystore.type": "zookeeper.ssl.keystore.type",
}
"""Keys that the client has under another name, by that name."""
_OWN_NAME = re.compile(r"(?<![\w./-])ssl\.")


def security(config: BrokerConfig) -> Security:
    """Return what secures the session.

    Raises:
        ConfigError: keys contradict each other, a store cannot be read, or a package is missing.
    """
    login = _login(config)
    has_tls = config["zookeeper.ssl.client.enable"]
    has_certificate = has_tls and config["zookeeper.ssl.keystore.location"]
    if config["zookeeper.set.acl"] and login is None and not has_certificate:
        raise ConfigError(
            f"zookeeper.set.acl is true, and the broker has no identity: set {JAAS_KEY}, or "
            "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
    if not has_tls:
        return Security(login=login, set_acl=config["zookeeper.set.acl"])
    # Only who uses TLS needs the client's code.
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.options import read_options
    from kafkalog.client.security.tls import TlsContexts
    from kafkalog.client.security.tls_options import TlsOptions

    try:
        values, _ = read_options(TlsOptions, _properties(config))
        contexts = TlsContexts(TlsOptions(**values))
        contexts()
    except ClientConfigError as error:
        raise ConfigError(_OWN_NAME.sub("zookeeper.ssl.", str(error))) from None
    return Security(contexts, login, config["zookeeper.set.acl"])


def _properties(config: BrokerConfig) -> dict[str, str]:
    """Return the client's properties of TLS for those of ZooKeeper."""
    found = {name: config[key] for name, key in _OPTIONS.items() if config[key] is not None}
    found["ssl.enabled.protocols"] = ",".join(_versions(config))
    found["ssl.cipher.suites"] = ",".join(config["zookeeper.ssl.cipher.suites"] or ())
    algorithm = config["zookeeper.ssl.endpoint.identification.algorithm"]
    found["ssl.endpoint.identification.algorithm"] = algorithm
    return found


def _versions(config: BrokerConfig) -> Sequence[str]:
    """Return the versions of TLS. A server of ZooKeeper 3.9 speaks 1.3 alone by default, older ones 1.2."""
    from kafkalog.client.security.tls_options import PROTOCOLS

    enabled: Sequence[str] | None = config["zookeeper.ssl.enabled.protocols"]
    oldest: str = config["zookeeper.ssl.protocol"]
    if enabled or oldest not in PROTOCOLS:
        return enabled or [oldest]
    return PROTOCOLS[PROTOCOLS.index(oldest) :]


def _login(config: BrokerConfig) -> Login | None:
    text = config[JAAS_KEY]
    if text is None:
        return None
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.security.jaas import parse_entry

    try:
        module, _, options = parse_entry(text, JAAS_KEY, _EXAMPLE)
    except ClientConfigError as error:
        raise ConfigError(str(error)) from None
    if module != DIGEST:
        raise ConfigError(f"{JAAS_KEY}: the login module is not known; the one that is known is {DIGEST}")
    if not options.get("username") or "password" not in options:
        raise ConfigError(f"{JAAS_KEY}: username or password is missing; write it as in: {_EXAMPLE}")
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError(f"{JAAS_KEY}: a login needs the package pure-sasl: pip install 'kafkalog[zookeeper-sasl]'")
    return Login(options["username"], options["password"])
