"""Reads from a configuration how the session with ZooKeeper is secured. The keys are those of the clients."""

from __future__ import annotations

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.config.zookeeper import ZOOKEEPER_KEYS
from kafkalog.zookeeper.properties import CLIENT_ENABLE, JAAS, SET_ACL
from kafkalog.zookeeper.security import PLAIN, Security

_ASKS = (CLIENT_ENABLE.name, SET_ACL.name, JAAS.name)
"""Nothing is secured where none of these is set."""


def security(config: BrokerConfig) -> Security:
    """Return what secures the session.

    Raises:
        ConfigError: keys contradict each other, a store cannot be read, or a package is missing.
    """
    if not any(config[key] for key in _ASKS):
        return PLAIN
    # Only who secures the session needs the client's code.
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.zookeeper.security import read_security

    given = {key.name: config[key.name] for key in ZOOKEEPER_KEYS if config[key.name] is not None}
    texts = {name: ",".join(value) if isinstance(value, list | tuple) else value for name, value in given.items()}
    try:
        options, _ = read_security(texts)
        return options.security()
    except ClientConfigError as error:
        raise ConfigError(str(error)) from None
