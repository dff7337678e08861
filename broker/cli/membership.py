"""`kafkalog server join` and `leave`: make a stopped broker a member of a cluster, or a cluster of its own again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from broker.cli.settings import add_action, read_settings

if TYPE_CHECKING:
    from broker.config.server import BrokerConfig
    from broker.metadata.tree.session import Session
    from broker.migration.join import Join
    from broker.migration.leave import Leave
    from broker.migration.stopped import StoppedBroker

FILE = "server.properties"
JOIN = """\
examples:
  kafkalog server join --config conf/server.properties --override zookeeper.connect=localhost:2181 --dry-run
  kafkalog server join --config conf/server.properties --override zookeeper.connect=localhost:2181

The broker is stopped, and has run without zookeeper.connect so far. Its topics with their ids, configurations, quotas
and producer ids become those of a cluster in ZooKeeper, of which it is the only broker. Its logs stay as they are.
Start it with zookeeper.connect afterwards, and then others. If the command is interrupted, run it again.
docs/how-to/clusters.md tells more.
"""
LEAVE = """\
examples:
  kafkalog server leave --config conf/server.properties --dry-run
  kafkalog server leave --config conf/server.properties

All brokers of the cluster are stopped. This one has a replica of every partition, which is in sync. It gets all topics
with their ids, configurations, quotas and producer ids; the cluster's nodes are removed from ZooKeeper, and the other
brokers cannot be started any more. Start it without zookeeper.connect afterwards. If the command is interrupted, run
it again. docs/how-to/clusters.md tells more.
"""


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `join` and `leave` to the actions of `kafkalog server`."""
    join = add_action(actions, "join", "make a stopped broker a member of a cluster", FILE, JOIN)
    leave = add_action(actions, "leave", "make a stopped broker a cluster of its own again", FILE, LEAVE)
    for action in (join, leave):
        action.add_argument("--dry-run", action="store_true", help="only say what would be done, and whether it can be")
        action.set_defaults(run=run_move)


def run_move(arguments: argparse.Namespace) -> int:
    """Move the broker; 1 when that is refused or fails, 2 when the settings cannot be used."""
    import asyncio
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
        if not config.is_member:
            raise ConfigError("zookeeper.connect is not set: it names the ZooKeeper of the cluster")
    except (ConfigError, PropertiesError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_move(config, arguments.action, is_dry=arguments.dry_run))
    except LogDirLockedError as error:
        print(f"kafkalog: {error}. Stop the broker first", file=sys.stderr)
    except (RefusedError, ConfigError, InconsistentClusterIdError, LogDirUnusableError, MetadataError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
    except (OSError, ZooKeeperError) as error:
        print(f"kafkalog: {error or type(error).__name__}. Run the command again", file=sys.stderr)
    else:
        return 0
    return 1


async def _move(config: BrokerConfig, action: str, *, is_dry: bool) -> None:
    import asyncio

    from broker.metadata.tree.session import Session
    from broker.migration.stopped import StoppedBroker
    from broker.modes.zookeeper_session import open_session
    from broker.runtime import over_kazoo
    from broker.system.workers import ThreadWorkers

    workers = ThreadWorkers(1)
    broker = StoppedBroker(config, workers)
    try:
        zookeeper = await open_session(config, over_kazoo)
        try:
            patience_s = config["zookeeper.session.timeout.ms"] / 1000
            session = Session(zookeeper, asyncio.get_running_loop(), patience_s=patience_s)
            move = await _prepared(broker, session, action)
            where = config["zookeeper.connect"]
            subject = f"broker {broker.broker_id} {action}s the cluster at {where}"
            print("\n".join([subject, *move.lines()]), flush=True)
            if is_dry:
                print("Nothing was changed (--dry-run)")
                return
            await move.carry_out()
        finally:
            await zookeeper.close()
    finally:
        broker.close()
        workers.close(wait=True)
    how = f"with zookeeper.connect={where}" if action == "join" else "without zookeeper.connect"
    print(f"done: start the broker {how}")


async def _prepared(broker: StoppedBroker, session: Session, action: str) -> Join | Leave:
    import random

    from broker.migration.join import Join
    from broker.migration.leave import Leave

    if action == "join":
        return await Join.prepare(broker, session)
    return await Leave.prepare(broker, session, random.SystemRandom())
