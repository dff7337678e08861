"""Make sure that topics of the target take batches with their offsets.

A kafkalog target knows the topic's configuration `kafkalog.mirror.source`: the alias of the cluster whose offsets the
topic keeps. The mirror sets it where it creates a topic, and in an empty one that is there already. A topic without it
that has records is another one's: it has been written by producers, perhaps since it took the place of the source.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import MIRROR_SOURCE
from kafkalog.protocol.errors import InvalidConfigError


def adopt(settings: MirrorSettings, target: Admin, topics: Collection[str]) -> dict[str, bool]:
    """Tell of each topic of the source whether the target takes its offsets as they are stated; let it do so.

    Raises:
        KeepingError: The topic in the target has other records.
        KafkaError, ClientError: The target cannot be asked.
    """
    remote = {topic: settings.naming.remote(topic) for topic in topics}
    configs = target.describe_configs([ConfigResource.topic(name) for name in remote.values()])
    found: dict[str, bool] = {}
    for topic, name in remote.items():
        entry = configs[ConfigResource.topic(name)].get(MIRROR_SOURCE)
        found[topic] = entry is not None
        if entry is not None and entry.value != settings.source:
            _take(settings, target, name, entry.value or "")
    return found


def _take(settings: MirrorSettings, target: Admin, name: str, before: str) -> None:
    partitions = [TopicPartition(name, number) for number in target.describe_topics([name])[name].partitions]
    ends = list_offsets(target.cluster, dict.fromkeys(partitions, LATEST))
    if any(end.offset for end in ends.values()):
        now = f"the mirror of {before}" if before else "no mirror with the offsets of its source, or not any more"
        raise KeepingError(
            f"topic {name} of the target has records, and is {now} ({MIRROR_SOURCE}={before!r}). Delete it to mirror "
            f"it anew; or set {MIRROR_SOURCE}={settings.source}, if it has the source's records with their offsets"
        )
    try:
        target.incremental_alter_configs({ConfigResource.topic(name): [ConfigChange(MIRROR_SOURCE, settings.source)]})
    except InvalidConfigError as error:
        # Brokers that are asked in turn do not agree: some are of Apache Kafka.
        raise KeepingError(
            f"topic {name} of the target: {MIRROR_SOURCE} is not known to all brokers ({error.message}), so some are "
            "of Apache Kafka, or of an older kafkalog. Set it by a kafkalog broker (kafkalog configs alter "
            f"--bootstrap-server KAFKALOG --topic {name} --add-config {MIRROR_SOURCE}={settings.source}) and let such "
            "brokers lead all of its partitions, or use --offsets translate"
        ) from error


def mirrors_of(admin: Admin, topics: Collection[str], source: str) -> set[str]:
    """Return those of a cluster's topics that keep the offsets of the cluster `source`."""
    configs = admin.describe_configs([ConfigResource.topic(name) for name in topics]) if topics else {}
    return {
        resource.name
        for resource, entries in configs.items()
        if (entry := entries.get(MIRROR_SOURCE)) is not None and entry.value == source
    }
