"""Write heartbeats: signs of life by which tools of Kafka find out which clusters are mirrored where (KIP-382).

MirrorMaker 2 writes those of `A->B` into the topic `heartbeats` of `B`, and those of `B->A` into that of `A`, whether
or not anything else is mirrored from `B` to `A`. The latter come to `B` with the other topics, as `A.heartbeats`: by
its name `RemoteClusterUtils.upstreamClusters` tells that `A` is upstream of `B`. Source: `MirrorHeartbeatTask`.
"""

from __future__ import annotations

import time

from kafkalog.client.admin import Admin
from kafkalog.client.admin.topics import NewTopic
from kafkalog.client.producer import Producer
from kafkalog.mirror.internal_topics.formats import Heartbeat
from kafkalog.mirror.topics.follower import COMPACTED, without_default_factor
from kafkalog.mirror.topics.naming import HEARTBEATS
from kafkalog.protocol.errors import TopicAlreadyExistsError, UnsupportedVersionError


class Heartbeats:
    """The heartbeats of one direction, in the cluster of `admin` and `producer`.

    Args:
        source: The alias of the direction's source.
        target: The alias of its target, in which the heartbeats are.
        replication_factor: That of the topic, if it has to be created.
        admin: Connections to the cluster.
        producer: A producer of the cluster.
    """

    def __init__(self, source: str, target: str, replication_factor: int, admin: Admin, producer: Producer) -> None:
        self._source, self._target = source, target
        self._replication_factor = replication_factor
        self._admin, self._producer = admin, producer
        self._there = False

    def beat(self) -> None:
        """Write a heartbeat, and wait until the cluster has it.

        Raises:
            KafkaError, ClientError: The cluster does not take it.
        """
        if not self._there:
            self._make_topic()
        beat = Heartbeat(self._source, self._target, int(time.time() * 1000))
        self._producer.send(HEARTBEATS, beat.value(), beat.key(), partition=0).result()

    def _make_topic(self) -> None:
        if HEARTBEATS not in self._admin.list_topics():
            try:
                self._admin.create_topics([NewTopic(HEARTBEATS, 1, self._replication_factor, COMPACTED)])
            except UnsupportedVersionError as error:
                raise without_default_factor(error) from error
            except TopicAlreadyExistsError:
                pass
        self._there = True
