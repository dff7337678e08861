"""Broker keys of a member of a cluster: ZooKeeper, the traffic between brokers, replication, and leaving in order.

Names and defaults are those of Apache Kafka 3.9; names that begin with `kafkalog.` are our own. Without
`zookeeper.connect` a broker is a cluster of its own, and the other keys of this module have no effect.
"""

from __future__ import annotations

from broker.config.definition import ConfigKey, Type, Update, at_least, one_of
from broker.config.listeners import KNOWN_PROTOCOLS
from broker.config.protocol_version import is_protocol_version
from broker.config.zookeeper import ZOOKEEPER_KEYS

LATEST_PROTOCOL = "3.9"
MORE_BETWEEN = "kafkalog.more.inter.broker.listener.names"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

CLUSTER_KEYS = [
    *ZOOKEEPER_KEYS,
    ConfigKey("kafkalog.leader.lease.enable", Type.BOOLEAN, True, "Whether a broker gives up its roles if ZooKeeper has not answered it for zookeeper.session.timeout.ms, until it is registered anew. Other leaders may have been elected by then. So nobody leads if ZooKeeper is away for longer. If false, the broker goes on as a leader, as Apache Kafka's do, and records that it acknowledges with acks=1 may be lost. If ZooKeeper grants a shorter time-out (its maxSessionTimeout), that one counts.", member=True),
    ConfigKey("kafkalog.role.check.interval.ms", Type.LONG, 300_000, "How often a broker compares its replicas, and their roles, with ZooKeeper. If a request of the controller was lost, it asks the controller to send its roles again. It also finds replicas that the cluster does not know (strays). The first check is at most half a minute after the controller has sent the broker its roles. -1: never.", at_least(-1), member=True),
    ConfigKey("kafkalog.log.stray.retention.ms", Type.LONG, 604_800_000, "How long a replica that the cluster does not assign to this broker any more is kept, as a directory that ends with -stray, before it is removed. -1: until somebody removes it.", at_least(-1), member=True),
    ConfigKey("broker.id.generation.enable", Type.BOOLEAN, True, "Whether a broker without broker.id takes a number from ZooKeeper.", member=True),
    ConfigKey("reserved.broker.max.id", Type.INT, 1000, "The largest broker.id that may be configured while broker.id.generation.enable is set. Generated numbers are larger.", at_least(0), member=True),
    # Traffic between brokers
    ConfigKey("inter.broker.listener.name", Type.STRING, None, "The name of the listener on which brokers and the controller reach each other. The default is the value of security.inter.broker.protocol.", member=True),
    ConfigKey(MORE_BETWEEN, Type.LIST, (), "The names of further listeners on which this broker serves requests of other brokers, which have another inter.broker.listener.name, or had it until lately. For the time in which the brokers of a cluster change it one by one. With an authorizer every listener serves them, to those who may do ClusterAction.", skips_empty=True, member=True),
    ConfigKey("security.inter.broker.protocol", Type.STRING, "PLAINTEXT", "The security protocol between brokers.", one_of(*KNOWN_PROTOCOLS), member=True),
    ConfigKey("inter.broker.protocol.version", Type.STRING, LATEST_PROTOCOL, "The release of Kafka whose protocol brokers speak to each other. It is the same for all brokers of a cluster: 2.8 is the safe choice where some of them are Apache Kafka's.", is_protocol_version, member=True),
    # Followers
    ConfigKey("num.replica.fetchers", Type.INT, 1, "How many connections this broker fetches over from each leader.", at_least(1), Update.CLUSTER_WIDE, member=True),
    ConfigKey("replica.fetch.max.bytes", Type.INT, 1 << 20, "How many bytes a follower fetches of one partition at a time. A larger batch is fetched whole.", at_least(0), member=True),
    ConfigKey("replica.fetch.min.bytes", Type.INT, 1, "How many bytes a leader collects before it answers a follower, within replica.fetch.wait.max.ms.", member=True),
    ConfigKey("replica.fetch.wait.max.ms", Type.INT, 500, "How long a leader waits for records before it answers a follower.", member=True),
    ConfigKey("replica.fetch.response.max.bytes", Type.INT, 10 << 20, "How many bytes a follower fetches at a time, of all partitions. A larger batch is fetched whole.", at_least(0), member=True),
    ConfigKey("replica.fetch.backoff.ms", Type.INT, 1000, "The longest pause of a follower after errors of a partition or a leader; the first one is 50 ms, and it doubles.", at_least(0), member=True),
    ConfigKey("replica.socket.timeout.ms", Type.INT, 30_000, "How long a broker waits for the answer of another one. At least replica.fetch.wait.max.ms.", at_least(1), member=True),
    ConfigKey("replica.socket.receive.buffer.bytes", Type.INT, 65_536, "The receive buffer of a follower's connections.", effect=False),
    # Controller
    ConfigKey("auto.leader.rebalance.enable", Type.BOOLEAN, True, "Whether the controller has the preferred leaders lead again, when too many partitions of a broker are led by others.", member=True),
    ConfigKey("leader.imbalance.per.broker.percentage", Type.INT, 10, "How many percent of the partitions that prefer a broker may be led by others before the controller elects it.", member=True),
    ConfigKey("leader.imbalance.check.interval.seconds", Type.LONG, 300, "How often the controller looks at that.", at_least(1), member=True),
    ConfigKey("controller.socket.timeout.ms", Type.INT, 30_000, "How long the controller waits for the answer of a broker before it sends a request again.", at_least(1), member=True),
    ConfigKey("kafkalog.unclean.recovery.timeout.ms", Type.LONG, 2000, "How long the controller waits for live replicas to say where their logs end, before an unclean election: the longest log leads. 0: the first live replica in the order of the assignment leads, as with Apache Kafka.", at_least(0), member=True),
    ConfigKey("replica.selector.class", Type.STRING, None, f"Which replica consumers read from: unset, the leader; {RACK_AWARE}, one in the rack that the consumer names in client.rack.", one_of(RACK_AWARE), member=True),
    # Leaving
    ConfigKey("controlled.shutdown.enable", Type.BOOLEAN, True, "Whether a broker that stops has the controller move its leaderships first.", member=True),
    ConfigKey("controlled.shutdown.max.retries", Type.INT, 3, "How often it asks for that.", at_least(1), member=True),
    ConfigKey("controlled.shutdown.retry.backoff.ms", Type.LONG, 5000, "How long it waits before it asks again.", at_least(0), member=True),
]  # fmt: skip
