"""Every metric of the broker, declared once: its name, kind, labels, meaning, and the function that reads it.

The names are those that the common configuration of Prometheus's JMX exporter for Kafka (`kafka-2_0_0.yml`, lower
case) derives from Kafka's MBeans, so that dashboards made for Kafka's brokers work. A rate per second in Kafka is a
counter here, from which Prometheus computes the rate. A histogram in Kafka is a count and a sum here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from broker.controller.cluster.model import gauges
from broker.counters import BrokerCounters

if TYPE_CHECKING:
    from broker.controller.cluster.controller import ClusterController
    from broker.controller.cluster.model.context import ControllerContext
    from broker.coordinator.group.service import GroupCoordinator
    from broker.coordinator.transaction.service import Transactions
    from broker.log.cleaner.log_cleaner import LogCleaner
    from broker.log.log import Log
    from broker.log.log_manager import LogManager
    from broker.member.member import ClusterMember
    from broker.net.authentication.counts import AuthenticationCounts
    from broker.quota.client import ClientQuota, ClientQuotas
    from broker.replica.manager import ReplicaManager

RUNNING = 3
"""Kafka's BrokerState of a running broker."""

Value = float | tuple[float, float]
"""A number; for a summary, the count and the sum."""
Rows = Iterator[tuple[tuple[str, ...], Value]]
"""The label values ("": without that label) and the value of each sample."""


class Kind(Enum):
    """Prometheus' metric types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Sources:
    """The objects that values are read from. The event loop changes them, so copy collections before iterating."""

    logs: LogManager
    replicas: ReplicaManager
    counters: BrokerCounters
    connections: Callable[[], Mapping[str, int]]
    """Open connections by listener."""
    cleaner: LogCleaner
    groups: GroupCoordinator
    transactions: Transactions
    quotas: ClientQuotas
    quota_clock: Callable[[], int]
    member: ClusterMember | None = None
    """The membership in a cluster; None for a lone broker."""
    controller: ClusterController | None = None
    """The candidate for the controller of that cluster."""
    authentications: Callable[[], Mapping[str, AuthenticationCounts]] = dict
    """Counts of authentications by listener, of those that ask for them."""
    certificates: Callable[[], Mapping[str, float]] = dict
    """The ends of the certificates of listeners, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    """The name in Prometheus; counters end with `_total`, the samples of summaries with `_count`, `_sum`."""
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    mbean: str
    """The MBean in Kafka, or "" if Kafka has none."""
    read: Callable[[Sources], Rows]
    """Reads the current rows."""


def _one(value: Callable[[Sources], Value]) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        yield (), value(sources)

    return read


def _each_log(value: Callable[[Log], float]) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        for log in sources.logs:
            yield (log.topic, str(log.partition)), value(log)

    return read


def _each_directory(value: Callable[[Any], float]) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        for directory in sources.logs.log_dirs:
            yield (str(directory.path),), value(directory)

    return read


def _each_topic(field: str) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        counters = sources.counters
        yield ("",), counters.total(field)
        for topic, traffic in list(counters.topics.items()):
            yield (topic,), getattr(traffic, field)

    return read


def _conversions(field: str) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        by_topic: dict[str, int] = {}
        for log in sources.logs:
            by_topic[log.topic] = by_topic.get(log.topic, 0) + getattr(log, field)
        yield ("",), sum(by_topic.values())
        for topic, count in by_topic.items():
            yield (topic,), count

    return read


def _requests(sources: Sources) -> Rows:
    for counter in sources.counters.requests:
        if counter.count:
            version = str(counter.version)
            yield (counter.api, version), counter.count
            if counter.api == "Fetch":
                # As in Kafka, whose dashboards tell consumers from followers.
                yield ("FetchConsumer", version), counter.count - counter.follower_count
                yield ("FetchFollower", version), counter.follower_count


def _request_times(sources: Sources) -> Rows:
    times: dict[str, tuple[int, float]] = {}

    def add(api: str, count: int, seconds: float) -> None:
        before = times.get(api, (0, 0.0))
        times[api] = before[0] + count, before[1] + seconds * 1000

    for counter in sources.counters.requests:
        if counter.count:
            add(counter.api, counter.count, counter.seconds)
            if counter.api == "Fetch":
                count, seconds = counter.follower_count, counter.follower_seconds
                add("FetchConsumer", counter.count - count, counter.seconds - seconds)
                add("FetchFollower", count, seconds)
    for api, value in times.items():
        yield (api,), value


def _authentications(field: str) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        for listener, counts in sources.authentications().items():
            yield (listener,), getattr(counts, field)

    return read


def _certificates(sources: Sources) -> Rows:
    for listener, end in sources.certificates().items():
        yield (listener,), end


_AUTHENTICATIONS = (
    ("successful-authentication-total", "successful", "Clients that were authenticated"),
    ("successful-authentication-no-reauth-total", "without_end", "Clients whose sessions do not end"),
    ("failed-authentication-total", "failures", "Clients that were not authenticated"),
    ("successful-reauthentication-total", "renewed", "Sessions that were renewed"),
    ("failed-reauthentication-total", "renewal_failures", "Sessions that could not be renewed"),
    ("expired-connections-killed-count", "expired", "Connections that were closed after the end of their sessions"),
)
"""Counts of authentications: Kafka's name, our own, and the meaning."""


def _connections(sources: Sources) -> Rows:
    for listener, count in sources.connections().items():
        yield (listener,), count


def _waiting(sources: Sources) -> Rows:
    yield ("Produce",), len(sources.replicas.produce_purgatory)
    yield ("Fetch",), len(sources.replicas.fetch_purgatory)


def _uncleanable(sources: Sources) -> Rows:
    for directory in sources.logs.log_dirs:
        yield (str(directory.path),), sources.cleaner.uncleanable_partitions_count(directory.path)


def _uncleanable_bytes(sources: Sources) -> Rows:
    for directory in sources.logs.log_dirs:
        yield (str(directory.path),), sources.cleaner.uncleanable_bytes(directory.path)


def _count(condition: Callable[[Any], bool]) -> Callable[[Sources], Rows]:
    return _one(lambda sources: sum(condition(partition) for partition in sources.replicas.partitions()))


def _controller(value: Callable[[ControllerContext], float]) -> Callable[[Sources], Rows]:
    """Return a number that the controller knows; 0 from other brokers."""

    def read(sources: Sources) -> float:
        context = None if sources.controller is None else sources.controller.context
        return 0 if context is None else value(context)

    return _one(read)


def _member(value: Callable[[ClusterMember], float]) -> Callable[[Sources], Rows]:
    return _one(lambda sources: 0 if sources.member is None else value(sources.member))


def _groups(state: str) -> Callable[[Sources], Rows]:
    return _one(lambda sources: sum(group.membership.state_name == state for group in sources.groups.groups()))


def _of_groups(field: str) -> Callable[[Sources], Rows]:
    return _one(lambda sources: getattr(sources.groups.counters, field))


def _quota_used(quota: Callable[[ClientQuotas], ClientQuota]) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        for used in quota(sources.quotas).used(sources.quota_clock()):
            yield used.share, used.value

    return read


def _quota_waits(quota: Callable[[ClientQuotas], ClientQuota]) -> Callable[[Sources], Rows]:
    def read(sources: Sources) -> Rows:
        for used in quota(sources.quotas).used(sources.quota_clock()):
            yield used.share, (used.throttled, used.throttled_ms)

    return read


_QUOTAS: tuple[tuple[str, str, str, Callable[[ClientQuotas], ClientQuota]], ...] = (
    ("Produce", "byte-rate", "Bytes produced per second", lambda quotas: quotas.produce),
    ("Fetch", "byte-rate", "Bytes of records fetched per second", lambda quotas: quotas.fetch),
    ("Request", "request-time", "Percent of the event loop's time that requests use", lambda quotas: quotas.request),
    ("ControllerMutation", "tokens", "Partitions that may be created or deleted now; below 0, how many are too many",
     lambda quotas: quotas.mutation),
)  # fmt: skip
"""The client quotas: Kafka's type and attribute, the metric's meaning, and the function that finds the quota."""


def _flushes(sources: Sources) -> tuple[int, float]:
    stats = sources.logs.resources.flush_stats
    return stats.count, stats.seconds * 1000


_G, _C, _S = Kind.GAUGE, Kind.COUNTER, Kind.SUMMARY
_TP = ("topic", "partition")
_T = ("topic",)
_UC = ("user", "client_id")

CATALOG = (
    # The logs
    Metric("kafka_log_log_size", _G, _TP, "Bytes of the partition's segments.",
           "kafka.log:type=Log,name=Size", _each_log(lambda log: log.size)),
    Metric("kafka_log_log_logendoffset", _G, _TP, "Offset that the next record gets.",
           "kafka.log:type=Log,name=LogEndOffset", _each_log(lambda log: log.log_end_offset)),
    Metric("kafka_log_log_logstartoffset", _G, _TP, "First offset that may be read.",
           "kafka.log:type=Log,name=LogStartOffset", _each_log(lambda log: log.log_start_offset)),
    Metric("kafka_log_log_numlogsegments", _G, _TP, "Segments of the partition.",
           "kafka.log:type=Log,name=NumLogSegments", _each_log(lambda log: len(log.segments))),
    Metric("kafka_log_logflushstats_logflushrateandtimems", _S, (), "Flushes of a segment to disk, in ms.",
           "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
           _one(_flushes)),
    Metric("kafka_log_logmanager_offlinelogdirectorycount", _G, (), "Log directories that have failed.",
           "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
           _one(lambda sources: len(sources.logs.offline_dirs))),
    Metric("kafka_log_logmanager_logdirectoryoffline", _G, ("logDirectory",), "1 for a log directory that has failed.",
           "kafka.log:type=LogManager,name=LogDirectoryOffline",
           _each_directory(lambda directory: int(directory.offline is not None))),
    Metric("kafkalog_log_openfiles", _G, (), "Segments and indexes that are open (kafkalog.log.max.open.files).",
           "", _one(lambda sources: len(sources.logs.resources.open_files))),
        # Log compaction: values of each cleaner thread's last cleaning
    Metric("kafka_log_logcleaner_max_buffer_utilization_percent", _G, (), "How full the offset map was, in percent.",
           "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent",
           _one(lambda sources: sources.cleaner.metrics.max_buffer_utilization_percent)),
    Metric("kafka_log_logcleaner_cleaner_recopy_percent", _G, (), "Bytes written, in percent of the bytes read.",
           "kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
           _one(lambda sources: sources.cleaner.metrics.cleaner_recopy_percent)),
    Metric("kafka_log_logcleaner_max_clean_time_secs", _G, (), "How long a cleaning took.",
           "kafka.log:type=LogCleaner,name=max-clean-time-secs",
           _one(lambda sources: sources.cleaner.metrics.max_clean_time_secs)),
    Metric("kafka_log_logcleaner_max_compaction_delay_secs", _G, (),
           "How much later than max.compaction.lag.ms a log was cleaned.",
           "kafka.log:type=LogCleaner,name=max-compaction-delay-secs",
           _one(lambda sources: sources.cleaner.metrics.max_compaction_delay_secs)),
    Metric("kafka_log_logcleaner_deadthreadcount", _G, (), "Cleaner threads that have died.",
           "kafka.log:type=LogCleaner,name=DeadThreadCount",
           _one(lambda sources: sources.cleaner.metrics.dead_thread_count)),
    Metric("kafka_log_logcleanermanager_max_dirty_percent", _G, (),
           "The largest uncompacted share of a log, in percent.",
           "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
           _one(lambda sources: sources.cleaner.metrics.max_dirty_percent)),
    Metric("kafka_log_logcleanermanager_time_since_last_run_ms", _G, (), "Time since the logs were last checked.",
           "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
           _one(lambda sources: sources.cleaner.time_since_last_run_ms())),
    Metric("kafka_log_logcleanermanager_uncleanable_partitions_count", _G, ("logDirectory",),
           "Partitions whose cleaning has failed.",
           "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count", _uncleanable),
    Metric("kafka_log_logcleanermanager_uncleanable_bytes", _G, ("logDirectory",),
           "Bytes that could be compacted, in partitions whose cleaning has failed.",
           "kafka.log:type=LogCleanerManager,name=uncleanable-bytes", _uncleanable_bytes),
    # Topics
    Metric("kafka_server_brokertopicmetrics_messagesin_total", _C, _T, "Records appended.",
           "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec", _each_topic("messages_in")),
    Metric("kafka_server_brokertopicmetrics_bytesin_total", _C, _T, "Bytes of records appended.",
           "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec", _each_topic("bytes_in")),
    Metric("kafka_server_brokertopicmetrics_bytesout_total", _C, _T, "Bytes of records sent to consumers.",
           "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec", _each_topic("bytes_out")),
    Metric("kafka_server_brokertopicmetrics_replicationbytesout_total", _C, (), "Bytes of records sent to followers.",
           "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec",
           _one(lambda sources: sources.counters.replication_bytes_out)),
    Metric("kafka_server_brokertopicmetrics_bytesrejected_total", _C, _T, "Bytes of records rejected for their size.",
           "kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec", _each_topic("bytes_rejected")),
    Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", _C, _T,
           "Appends requested: one for each partition of a produce request.",
           "kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec", _each_topic("total_produce")),
    Metric("kafka_server_brokertopicmetrics_failedproducerequests_total", _C, _T,
           "Appends that failed, other than for a moved, unknown or offline partition or for size.",
           "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec", _each_topic("failed_produce")),
    Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", _C, _T,
           "Reads requested: one for each partition of a fetch request.",
           "kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec", _each_topic("total_fetch")),
    Metric("kafka_server_brokertopicmetrics_failedfetchrequests_total", _C, _T,
           "Reads that failed, other than for a moved, unknown or offline partition, its epoch or the offset.",
           "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec", _each_topic("failed_fetch")),
    Metric("kafka_server_brokertopicmetrics_producemessageconversions_total", _C, _T,
           "Records converted to the topic's message format.",
           "kafka.server:type=BrokerTopicMetrics,name=ProduceMessageConversionsPerSec",
           _conversions("produce_message_conversions")),
    Metric("kafka_server_brokertopicmetrics_fetchmessageconversions_total", _C, _T,
           "Records converted for a consumer that knows an older message format.",
           "kafka.server:type=BrokerTopicMetrics,name=FetchMessageConversionsPerSec",
           _conversions("fetch_message_conversions")),
    # Requests
    Metric("kafka_network_requestmetrics_requests_total", _C, ("request", "version"), "Requests answered.",
           "kafka.network:type=RequestMetrics,name=RequestsPerSec", _requests),
    Metric("kafka_network_requestmetrics_totaltimems", _S, ("request",),
           "Time from a request's arrival until its response is handed to the connection, in ms.",
           "kafka.network:type=RequestMetrics,name=TotalTimeMs", _request_times),
    Metric("kafka_server_socket_server_metrics_connection_count", _G, ("listener",), "Open connections.",
           "kafka.server:type=socket-server-metrics,attribute=connection-count", _connections),
    *(
        Metric(f"kafka_server_socket_server_metrics_{attribute.replace('-', '_')}",
               _C if attribute.endswith("total") else _G, ("listener",), f"{doc}.",
               f"kafka.server:type=socket-server-metrics,attribute={attribute}", _authentications(field))
        for attribute, field, doc in _AUTHENTICATIONS
    ),
    Metric("kafkalog_tls_certificate_not_after_seconds", _G, ("listener",),
           "When the certificate of a listener with TLS ends, in seconds since the epoch.",
           "", _certificates),
    Metric("kafka_server_delayedoperationpurgatory_purgatorysize", _G, ("delayedOperation",),
           "Requests that wait for replicas, for an fsync, or for records.",
           "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize", _waiting),
        # Client quotas: one sample for each set of clients that share a quota
    *(
        Metric(f"kafka_server_{kind.lower()}_{attribute.replace('-', '_')}", _G, _UC, f"{doc}.",
               f"kafka.server:type={kind},attribute={attribute}", _quota_used(quota))
        for kind, attribute, doc, quota in _QUOTAS
    ),
    *(
        Metric(f"kafka_server_{kind.lower()}_throttle_time_ms", _S, _UC,
               "Requests after which the client was throttled, and for how long, in ms.",
               f"kafka.server:type={kind},attribute=throttle-time", _quota_waits(quota))
        for kind, _, _, quota in _QUOTAS
    ),
    # Partitions
    Metric("kafka_server_replicamanager_partitioncount", _G, (), "Partitions hosted by this broker.",
           "kafka.server:type=ReplicaManager,name=PartitionCount", _one(lambda sources: len(sources.replicas))),
    Metric("kafka_server_replicamanager_leadercount", _G, (), "Partitions that this broker leads.",
           "kafka.server:type=ReplicaManager,name=LeaderCount", _count(lambda partition: partition.is_leader)),
    Metric("kafka_server_replicamanager_offlinereplicacount", _G, (), "Partitions whose log cannot be used.",
           "kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
           _one(lambda sources: sources.replicas.offline_count())),
    Metric("kafka_server_replicamanager_underreplicatedpartitions", _G, (),
           "Partitions led by this broker that have a replica that is not in sync.",
           "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
           _count(lambda partition: partition.is_leader and len(partition.isr) < len(partition.replicas))),
    Metric("kafka_server_replicamanager_underminisrpartitioncount", _G, (),
           "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas.",
           "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
           _count(lambda partition: partition.is_under_min_isr)),
    Metric("kafka_server_replicamanager_atminisrpartitioncount", _G, (),
           "Partitions led by this broker with no more in-sync replicas than min.insync.replicas.",
           "kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount",
           _count(lambda partition: partition.is_leader and len(partition.isr) == partition.effective_min_insync)),
    Metric("kafka_server_replicamanager_isrshrinks_total", _C, (), "In-sync replicas that fell behind and left.",
           "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec", _member(lambda member: member.isr.shrinks)),
    Metric("kafka_server_replicamanager_isrexpands_total", _C, (), "Replicas that caught up and became in sync.",
           "kafka.server:type=ReplicaManager,name=IsrExpandsPerSec", _member(lambda member: member.isr.expansions)),
    Metric("kafka_server_replicamanager_failedisrupdates_total", _C, (), "Changes of an ISR that were refused.",
           "kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec", _member(lambda member: member.isr.failures)),
    Metric("kafka_server_replicafetchermanager_maxlag", _G, (),
           "The most records that a partition followed here lacks below its leader's high watermark.",
           "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
           _member(lambda member: member.fetchers.most_behind)),
    Metric("kafka_server_replicafetchermanager_failedpartitionscount", _G, (),
           "Partitions that should be fetched from their leaders and are not at present. They are tried again.",
           "kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica",
           _member(lambda member: member.fetchers.troubled)),
    Metric("kafka_server_replicamanager_produceridcount", _G, (), "Producer ids with state in partitions.",
           "kafka.server:type=ReplicaManager,name=ProducerIdCount",
           _one(lambda sources: sum(len(log.producers.producers) for log in sources.logs))),
    Metric("kafkalog_replicas_differing_total", _C, (),
           "Replicas whose role differed from what ZooKeeper says, or that the cluster does not know.",
           "", _member(lambda member: member.roles.differences)),
    Metric("kafkalog_log_strays", _G, (),
           "Directories of replicas that are not in use (-stray). They are kept for kafkalog.log.stray.retention.ms.",
           "", _one(lambda sources: len(sources.logs.strays))),
    # The controller of a cluster
    Metric("kafka_controller_kafkacontroller_activecontrollercount", _G, (),
           "1 if this broker is the controller of its cluster. The sum over all brokers is 1.",
           "kafka.controller:type=KafkaController,name=ActiveControllerCount", _controller(lambda context: 1)),
    Metric("kafka_controller_kafkacontroller_offlinepartitionscount", _G, (),
           "Partitions of the cluster without an available leader. Only the controller reports it, and those below.",
           "kafka.controller:type=KafkaController,name=OfflinePartitionsCount", _controller(gauges.offline_partitions)),
    Metric("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", _G, (),
           "Partitions that their preferred replica does not lead.",
           "kafka.controller:type=KafkaController,name=PreferredReplicaImbalanceCount",
           _controller(gauges.imbalanced_partitions)),
    Metric("kafka_controller_kafkacontroller_globaltopiccount", _G, (), "Topics of the cluster.",
           "kafka.controller:type=KafkaController,name=GlobalTopicCount", _controller(gauges.topics)),
    Metric("kafka_controller_kafkacontroller_globalpartitioncount", _G, (), "Partitions of the cluster.",
           "kafka.controller:type=KafkaController,name=GlobalPartitionCount", _controller(gauges.partitions)),
    Metric("kafka_controller_kafkacontroller_topicstodeletecount", _G, (),
           "Topics that are being deleted, or wait for a broker to be deleted.",
           "kafka.controller:type=KafkaController,name=TopicsToDeleteCount", _controller(gauges.topics_to_delete)),
    Metric("kafka_controller_kafkacontroller_activebrokercount", _G, (), "Registered brokers.",
           "kafka.controller:type=KafkaController,name=ActiveBrokerCount", _controller(gauges.brokers)),
    Metric("kafkalog_controller_reassigning_partitions", _G, (), "Partitions that move to other brokers.",
           "", _controller(gauges.reassigning_partitions)),
    # Transactions
    Metric("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", _G, (),
           "Markers of decided transactions that are still to be written.",
           "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
           _one(lambda sources: sources.transactions.coordinator.completion.missing_markers)),
    Metric("kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize", _G, (),
           "Transactions that have all their markers, but whose state is still to be stored.",
           "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
           _one(lambda sources: sources.transactions.coordinator.completion.unstored)),
    Metric("kafkalog_transaction_decisions_waiting", _G, (),
           "Decided transactions that wait until their decisions are replicated, before markers are written.",
           "", _one(lambda sources: sources.transactions.coordinator.waiting.count)),
    Metric("kafka_server_transaction_coordinator_metrics_partition_load_time_ms", _S, (),
           "Partitions of __transaction_state that were loaded, and how long that took, in ms.",
           "kafka.server:type=transaction-coordinator-metrics,attribute=partition-load-time-avg",
           _one(lambda sources: (sources.transactions.coordinator.loads, sources.transactions.coordinator.load_ms))),
    Metric("kafka_server_addpartitionstotxnmanager_verificationfailurerate_total", _C, (),
           "Transactional batches that were refused because their transaction does not cover the partition.",
           "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
           _one(lambda sources: sources.transactions.admission.failures)),
    # Groups
    Metric("kafka_coordinator_group_groupmetadatamanager_numgroups", _G, (), "Groups that this broker coordinates.",
           "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
           _one(lambda sources: len(sources.groups.groups()))),
    Metric("kafka_coordinator_group_groupmetadatamanager_numoffsets", _G, (), "Offsets that groups have committed.",
           "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
           _one(lambda sources: sum(len(group.offsets) for group in sources.groups.groups()))),
    *(
        Metric(f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.lower()}", _G, (),
               f"Classic groups in state {state}.",
               f"kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups{state}", _groups(state))
        for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
    ),
    Metric("kafka_server_group_coordinator_metrics_offset_commit_count_total", _C, (), "Offsets committed.",
           "kafka.server:type=group-coordinator-metrics,attribute=offset-commit-count", _of_groups("offset_commits")),
    Metric("kafka_server_group_coordinator_metrics_offset_deletion_count_total", _C, (),
           "Offsets deleted by administrators.",
           "kafka.server:type=group-coordinator-metrics,attribute=offset-deletion-count",
           _of_groups("offset_deletions")),
    Metric("kafka_server_group_coordinator_metrics_offset_expiration_count_total", _C, (), "Offsets expired.",
           "kafka.server:type=group-coordinator-metrics,attribute=offset-expiration-count",
           _of_groups("offset_expirations")),
    Metric("kafka_server_group_coordinator_metrics_group_completed_rebalance_count_total", _C, (),
           "Rebalances of classic groups that were completed.",
           "kafka.server:type=group-coordinator-metrics,attribute=group-completed-rebalance-count",
           _of_groups("completed_rebalances")),
    Metric("kafka_server_group_coordinator_metrics_partition_load_time_ms", _S, (),
           "Partitions of __consumer_offsets whose groups were loaded, and how long that took, in ms.",
           "kafka.server:type=group-coordinator-metrics,attribute=partition-load-time-avg",
           _one(lambda sources: (sources.groups.counters.loads, sources.groups.counters.load_ms))),
    Metric("kafka_server_kafkaserver_brokerstate", _G, (), f"{RUNNING}: running.",
           "kafka.server:type=KafkaServer,name=BrokerState", _one(lambda _: RUNNING)),
)  # fmt: skip
