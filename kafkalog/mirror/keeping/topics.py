"""Make sure that topics of the target take batches with their offsets.

A kafkalog target knows the topic's configuration `kafkalog.mirror.source`: the alias of the cluster whose offsets the
topic keeps. The mirror sets it where it creates a topic, and in an empty one that is there already. A topic without it
that has records is another one's: it has been written by producers, perhaps since it took the place of the source.

In a mixed cluster only brokers of kafkalog know that configuration, so one of those is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import UNREADABLE, ConfigAdmin, ConfigChange, ConfigOperation, ConfigResource
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.client.offsets import LATEST
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import MIRROR_SOURCE
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import STATED_OFFSETS, ApiVersionsRequest

logger = logging.getLogger(__name__)


def adopt(
    settings: MirrorSettings, target: Admin, topics: Collection[str], leaderless: LeaderlessPartitions
) -> tuple[dict[str, bool], list[str]]:
    """Tell of each topic of the source whether the target takes its offsets as they are stated; let it do so.

    Returns:
        Whether it does, by topic; and the topics that do so only now, which the caller may `give_back`. A topic is
        missing if its configuration in the target cannot be read, or if it has to be empty and a partition does not
        tell whether it is.

    Raises:
        KeepingError: The topic in the target has other records.
        KafkaError, ClientError: The target cannot be asked.
    """
    remote = {topic: settings.naming.remote(topic) for topic in topics}
    node_id = node_that_takes_offsets(target.cluster)
    if node_id is None:
        return dict.fromkeys(remote, False), []
    admin = ConfigAdmin(target.cluster, node_id=node_id)
    configs = admin.describe_configs([ConfigResource.topic(name) for name in remote.values()])
    found: dict[str, bool] = {}
    new: dict[str, str] = {}
    for topic, name in remote.items():
        if UNREADABLE in configs[ConfigResource.topic(name)]:
            # It is not known of whom it is a mirror.
            continue
        entry = configs[ConfigResource.topic(name)].get(MIRROR_SOURCE)
        if entry is not None and entry.value != settings.source:
            new[topic] = entry.value or ""
        else:
            found[topic] = entry is not None
    taken = _take(settings, target, admin, new, leaderless) if new else []
    found |= dict.fromkeys(taken, True)
    return found, taken


def give_back(target: Admin, names: Collection[str]) -> None:
    """Let topics of the target be no mirrors any more.

    Raises:
        KafkaError, ClientError: The target cannot be asked.
    """
    admin = ConfigAdmin(target.cluster, node_id=node_that_takes_offsets(target.cluster))
    delete = [ConfigChange(MIRROR_SOURCE, operation=ConfigOperation.DELETE)]
    admin.incremental_alter_configs({ConfigResource.topic(name): delete for name in names})


def give_up(settings: MirrorSettings, target: Admin) -> list[str]:
    """Let the target's topics of those that `settings` name be no mirrors of the source; return these, of the source.

    A warning names each topic whose configuration cannot be read.

    Raises:
        KafkaError, ClientError: The target cannot be asked.
    """
    node_id = node_that_takes_offsets(target.cluster)
    if node_id is None:
        return []
    naming, wanted = settings.naming, settings.topic_filter
    upstream = {name: naming.upstream(name) for name in target.list_topics()}
    named = {name: topic for name, topic in upstream.items() if topic is not None and wanted.allows(topic)}
    found = mirrors_of(ConfigAdmin(target.cluster, node_id=node_id), named, settings.source)
    for name, reason in sorted(found.unreadable.items()):
        told = "topic %s is not released, because its configuration in the target cannot be read: %s"
        logger.warning(told, named[name], reason)
    if found.of_source:
        give_back(target, found.of_source)
    return sorted(named[name] for name in found.of_source)


def node_that_takes_offsets(cluster: Cluster) -> int | None:
    """Return a broker that takes records at the offsets that they state; None if no broker does.

    Raises:
        KafkaError, ClientError: No broker is known to do so, and this one cannot be asked.
    """
    failed: Exception | None = None
    for node_id in sorted(cluster.metadata([]).brokers):
        try:
            cluster.request_to(node_id, ApiVersionsRequest(), max_version=2, feature=STATED_OFFSETS)
        except UnsupportedVersionError:
            continue
        except (KafkaError, ClientError) as error:
            failed = error
            continue
        return node_id
    if failed is not None:
        raise failed
    return None


def _take(
    settings: MirrorSettings,
    target: Admin,
    admin: ConfigAdmin,
    before: Mapping[str, str],
    leaderless: LeaderlessPartitions,
) -> list[str]:
    """Let empty topics of the target become mirrors; return those that did.

    A topic is left out if one of its partitions does not tell whether it is empty.

    Args:
        before: The topics of the source, each with what its topic in the target has in `kafkalog.mirror.source`.

    Raises:
        KeepingError: A topic of the target has records.
        KafkaError, ClientError: The target cannot be asked.
    """
    remote = {topic: settings.naming.remote(topic) for topic in before}
    described = target.describe_topics(list(remote.values()))
    of = {
        TopicPartition(name, number): TopicPartition(topic, number)
        for topic, name in remote.items()
        for number in described[name].partitions
    }
    # All at once: for a leader that does not answer, this waits.
    ends = leaderless.ask(target.cluster, dict.fromkeys(of, LATEST), of=of)
    for tp, end in ends.items():
        if end.offset:
            was = before[of[tp].topic]
            now = f"the mirror of {was}" if was else "no mirror with the offsets of its source, or not any more"
            raise KeepingError(
                f"topic {tp.topic} of the target has records, and is {now} ({MIRROR_SOURCE}={was!r}). Delete it to "
                f"mirror it anew; or set {MIRROR_SOURCE}={settings.source}, if it has the source's records with their "
                "offsets"
            )
    silent = {tp.topic for tp in of if tp not in ends}
    taken = {topic: name for topic, name in remote.items() if name not in silent}
    change = [ConfigChange(MIRROR_SOURCE, settings.source)]
    if taken:
        admin.incremental_alter_configs({ConfigResource.topic(name): change for name in taken.values()})
    return list(taken)


class Mirrors(NamedTuple):
    """Topics of a cluster, by what their configurations tell."""

    of_source: set[str]
    """The topics that keep the offsets of the given source."""
    unreadable: dict[str, str]
    """The topics whose configurations cannot be read, with the reasons. They may keep the source's offsets."""


def mirrors_of(admin: Admin | ConfigAdmin, topics: Collection[str], source: str) -> Mirrors:
    """Find those of a cluster's topics that keep the offsets of the cluster `source`.

    Raises:
        KafkaError, ClientError: The cluster cannot be asked.
    """
    configs = admin.describe_configs([ConfigResource.topic(name) for name in topics]) if topics else {}
    found = Mirrors(set(), {})
    for resource, entries in configs.items():
        entry = entries.get(MIRROR_SOURCE)
        if UNREADABLE in entries:
            found.unreadable[resource.name] = entries[UNREADABLE].value or ""
        elif entry is not None and entry.value == source:
            found.of_source.add(resource.name)
    return found
