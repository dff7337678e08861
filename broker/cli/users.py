"""`kafkalog server add-user`: add a SCRAM user without a running broker, such as the first one of all."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.settings import add_action, read_settings

if TYPE_CHECKING:
    from broker.config.server import BrokerConfig
    from kafkalog.protocol.scram import ScramCredential, ScramMechanism

FILE = "server.properties"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ADD = """\
examples:
  kafkalog server add-user admin --config conf/server.properties
  kafkalog server add-user broker --config conf/server.properties --mechanism SCRAM-SHA-256 --password-file secret

The command asks for the password, or reads the first line of a file. Without zookeeper.connect the broker must be
stopped: the user is kept in its log directories. With it, the user is kept in ZooKeeper, and the brokers of the cluster
may run. Once there is a user who may administer the cluster, kafkalog configs alter --user makes others.
docs/how-to/secure-a-broker.md tells more.
"""


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `add-user` to the actions of `kafkalog server`."""
    add = add_action(actions, "add-user", "add a SCRAM user without a running broker", FILE, ADD)
    add.add_argument("user", metavar="NAME", help="the user's name")
    add.add_argument(
        "--mechanism",
        action="append",
        choices=MECHANISMS,
        help="a mechanism by which the user may log in; may be repeated; both by default",
    )
    add.add_argument("--iterations", type=int, default=4096, metavar="N", help="4096 (default) to 16384")
    add.add_argument("--password-file", type=Path, metavar="FILE", help="a file whose first line is the password")
    add.set_defaults(run=run_add)


def run_add(arguments: argparse.Namespace) -> int:
    """Add the user; 1 when that is refused or fails, 2 when the settings or options cannot be used."""
    import sys

    from broker.config.definition import ConfigError
    from broker.config.server import BrokerConfig
    from broker.log.directories.log_dir import InconsistentClusterIdError, LogDirLockedError, LogDirUnusableError
    from broker.metadata.model import MetadataError
    from broker.migration.stopped import RefusedError
    from broker.zookeeper.interface import ZooKeeperError
    from kafkalog.java_properties import PropertiesError

    try:
        config = BrokerConfig(read_settings(arguments))
        credentials = _credentials(arguments)
    except (ConfigError, PropertiesError, OSError, ValueError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    try:
        where = _add(config, arguments.user, credentials)
    except LogDirLockedError as error:
        print(f"kafkalog: {error}. Stop the broker first, or use kafkalog configs alter --user", file=sys.stderr)
    except (RefusedError, ConfigError, InconsistentClusterIdError, LogDirUnusableError, MetadataError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
    except (OSError, ZooKeeperError) as error:
        print(f"kafkalog: {error or type(error).__name__}. Run the command again", file=sys.stderr)
    else:
        print(f"user {arguments.user} may log in by {', '.join(each.value for each in credentials)} ({where})")
        return 0
    return 1


def _credentials(arguments: argparse.Namespace) -> dict[ScramMechanism, ScramCredential]:
    from kafkalog.protocol.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism

    if not arguments.user:
        raise ValueError("the user's name must not be empty")
    if not MIN_ITERATIONS <= arguments.iterations <= MAX_ITERATIONS:
        raise ValueError(f"--iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are possible")
    password = _password(arguments.password_file)
    names = dict.fromkeys(arguments.mechanism or MECHANISMS)
    return {
        ScramMechanism(name): ScramCredential.of_password(ScramMechanism(name), password, arguments.iterations)
        for name in names
    }


def _password(file: Path | None) -> str:
    import getpass
    import sys

    if file is not None:
        password = file.read_text("utf-8").partition("\n")[0].rstrip("\r")
    elif sys.stdin.isatty():
        password = getpass.getpass("password: ")
        if password != getpass.getpass("again: "):
            raise ValueError("the passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ValueError("the password must not be empty")
    return password


def _add(config: BrokerConfig, user: str, credentials: dict[ScramMechanism, ScramCredential]) -> str:
    """Add the user, and return where the credentials are kept."""
    import asyncio

    if config.is_member:
        asyncio.run(_add_to_zookeeper(config, user, credentials))
        return f"in ZooKeeper at {config['zookeeper.connect']}"
    import random

    from broker.migration.first_users import add_to_registry
    from broker.migration.stopped import StoppedBroker
    from broker.system.workers import ThreadWorkers

    for path in config.log_dirs:
        path.mkdir(parents=True, exist_ok=True)
    workers = ThreadWorkers(1)
    broker = StoppedBroker(config, workers)
    try:
        add_to_registry(broker, user, credentials, random.SystemRandom())
    finally:
        broker.close()
        workers.close(wait=True)
    return f"in {', '.join(map(str, config.log_dirs))}"


async def _add_to_zookeeper(
    config: BrokerConfig, user: str, credentials: dict[ScramMechanism, ScramCredential]
) -> None:
    import asyncio

    from broker.metadata.tree.session import Session
    from broker.migration.first_users import add_to_zookeeper
    from broker.modes.zookeeper_session import open_session
    from broker.runtime import over_kazoo

    zookeeper = await open_session(config, over_kazoo)
    try:
        patience_s = config["zookeeper.session.timeout.ms"] / 1000
        await add_to_zookeeper(Session(zookeeper, asyncio.get_running_loop(), patience_s=patience_s), user, credentials)
    finally:
        await zookeeper.close()
