"""Opens the session with ZooKeeper that a configuration describes."""

from __future__ import annotations

import asyncio

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.metadata.tree.session import Session
from broker.modes.zookeeper_security import security
from broker.runtime import OpenZooKeeper
from broker.zookeeper.interface import ZooKeeper, ZooKeeperError


async def open_session(config: BrokerConfig, open_zookeeper: OpenZooKeeper) -> ZooKeeper:
    """Open a session, below the path of `zookeeper.connect`, which is made if it does not exist.

    Raises:
        ConfigError: no ZooKeeper answers, it refuses this broker, or the keys that secure the session are wrong.
    """
    secured = security(config)
    session_s = config["zookeeper.session.timeout.ms"] / 1000
    connect_s = (config["zookeeper.connection.timeout.ms"] or config["zookeeper.session.timeout.ms"]) / 1000
    address: str = config["zookeeper.connect"]
    hosts, slash, path = address.partition("/")
    chroot = path.strip("/")
    try:
        if slash and chroot:
            above = await open_zookeeper(hosts, session_timeout=session_s, connect_timeout=connect_s, security=secured)
            try:
                await Session(above, asyncio.get_running_loop(), patience_s=connect_s).ensure(f"/{chroot}")
            finally:
                await above.close()
            address = f"{hosts}/{chroot}"
        else:
            address = hosts
        return await open_zookeeper(address, session_timeout=session_s, connect_timeout=connect_s, security=secured)
    except (OSError, ZooKeeperError) as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
