"""Adds SCRAM users without a running broker, such as the first one of all: `kafkalog server add-user`.

A lone broker keeps users in its registry, so it has to be stopped. A cluster keeps them in ZooKeeper, and its brokers
may run: they notice the change there. Kafka's `kafka-configs --zookeeper` does the same.
"""

from __future__ import annotations

import random
from dataclasses import replace

from broker.metadata.model import ClusterState, new_cluster_id
from broker.metadata.operations import SetScramCredentials, apply
from broker.metadata.tree.entities import content_after, name_of
from broker.metadata.tree.reading import ABSENT, read_node
from broker.metadata.tree.session import Session
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.notices import encode_config_change
from broker.migration.stopped import RefusedError, StoppedBroker
from broker.zookeeper.interface import BadVersionError, Create, MultiError, NodeExistsError, Operation, SetData
from kafkalog.protocol.scram import CredentialError, ScramCredential, ScramMechanism

ATTEMPTS = 20


def add_to_registry(
    broker: StoppedBroker, user: str, credentials: dict[ScramMechanism, ScramCredential], chance: random.Random
) -> None:
    """Add the credentials of a user to the registry of a stopped broker; replace those for the same mechanisms.

    Raises:
        RefusedError: the broker is a member of a cluster, or has logs that it has to take over first.
        MetadataError: the registry cannot be read.
        OSError: it cannot be written.
    """
    if broker.has_joined:
        raise RefusedError(
            "this broker is a member of a cluster, which keeps users in ZooKeeper: set zookeeper.connect"
        )
    if not broker.has_registry and broker.held():
        raise RefusedError(
            "the log directories have logs and no registry: start the broker once, so that it can take them over"
        )
    if broker.has_registry:
        state = broker.registry()
    else:
        state = ClusterState(broker.cluster_id or new_cluster_id(chance))
    present = state.scram_credentials.get(user, {})
    changed = apply(state, [SetScramCredentials(user, {**present, **credentials})])
    broker.write_registry(replace(changed, revision=state.revision))


async def add_to_zookeeper(session: Session, user: str, credentials: dict[ScramMechanism, ScramCredential]) -> None:
    """Add the credentials of a user in ZooKeeper; replace those for the same mechanisms.

    Raises:
        OSError: there is no connection, or others change the same node all the time.
        ZooKeeperError: ZooKeeper refuses the change.
    """
    name = name_of(SetScramCredentials(user, credentials))
    path = f"{paths.CONFIGS}/{name}"
    for parent in (path.rpartition("/")[0], paths.CONFIG_CHANGES):
        await session.ensure(parent)
    for _ in range(ATTEMPTS):
        node = await read_node(session, name)
        present = {
            mechanism: text for mechanism, text in _present(node.content).items() if mechanism not in credentials
        }
        data = configs.encode(content_after(SetScramCredentials(user, {**present, **credentials}), node.content))
        write: Operation = Create(path, data) if node.version == ABSENT else SetData(path, data, node.version)
        notice = Create(paths.CONFIG_CHANGE_PREFIX, encode_config_change(name), is_sequential=True)
        try:
            await session.zookeeper.multi([write, notice])
        except MultiError as error:
            if not isinstance(error.reason, BadVersionError | NodeExistsError):
                raise error.reason from error
        else:
            return
    raise OSError(f"others change {path} in ZooKeeper all the time")


def _present(content: dict[str, str]) -> dict[ScramMechanism, ScramCredential]:
    found = {}
    for mechanism in ScramMechanism:
        try:
            found[mechanism] = ScramCredential.parse(mechanism, content[mechanism.value])
        except (KeyError, CredentialError):
            continue
    return found
