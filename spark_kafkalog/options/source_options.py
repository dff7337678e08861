"""All options of one source, with the defaults, checks and messages of Spark's own Kafka source.

Reference: Spark's Structured Streaming + Kafka Integration Guide. PySpark passes options with lower-cased names, so
names are compared without regard to case. `kafka.*` options are client properties (`kafkalog.client.config`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.foreign import warnings_about
from kafkalog.client.properties.providers import resolve
from spark_kafkalog.delegation import clusters
from spark_kafkalog.delegation.application import application_settings
from spark_kafkalog.options.limits import (
    EARLIEST,
    LATEST,
    LENIENT,
    OFFSETS_STRATEGY,
    TIMESTAMPS_STRATEGY,
    AtEnd,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Limit,
    check_order,
    is_lenient,
    parse_limit,
)
from spark_kafkalog.options.parsing import (
    Given,
    OptionsError,
    batch_size,
    boolean,
    duration,
    missing_servers,
    not_negative,
    positive,
    positive_int32,
    size,
    size_or_none,
)
from spark_kafkalog.options.subscription import Strategy, parse_strategy
from spark_kafkalog.values.option_names import NAMES as _VALUE_OPTIONS

if TYPE_CHECKING:
    from kafkalog.client.admin.security.delegation_tokens import DelegationToken

logger = logging.getLogger(__name__)

DEFAULT_POLL_TIMEOUT_MS = 120_000
"""The default of `spark.network.timeout`."""
DEFAULT_MAX_TRIGGER_DELAY_S = 15 * 60.0
DEFAULT_SMALL_BATCH_BYTES = 1 << 20
DEFAULT_MAX_BATCH_BYTES = 512 << 20

_BATCH_IGNORED = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "commitGroup",
    "smallBatchBytes",
)
_STREAM_IGNORED = ("filterPushdown",)
_STREAM_REFUSED = {
    "endingOffsets": "ending offset not valid in streaming queries",
    "endingOffsetsByTimestamp": "ending timestamp not valid in streaming queries",
    "endingTimestamp": "ending timestamp not valid in streaming queries",
}
_OPTIONS = (
    *("subscribe", "subscribePattern", "assign", "failOnDataLoss", "includeHeaders", "groupIdPrefix"),
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
    *LENIENT,
    *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "minPartitions", "maxRecordsPerPartition"),
    *_BATCH_IGNORED,
    *_STREAM_IGNORED,
    *("maxBytesPerPartition", "maxBatchBytes", "keepFreedMemory"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *_VALUE_OPTIONS,
)

_OF_GROUPS = frozenset(
    {
        *("group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy"),
        *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "auto.commit.interval.ms"),
    }
)
"""Properties of consumers that are members of a group."""
REFUSED_PROPERTIES = {
    "auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
    "'startingOffsets' to 'earliest' or 'latest' to specify where to start. Structured Streaming manages which "
    "offsets are consumed internally, rather than relying on the kafkaConsumer to do it. Note that 'startingOffsets' "
    "only applies when a new query is started, and that resuming always picks up from where the query left off.",
    "key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays. "
    "Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
    "arrays. Use DataFrame operations to explicitly deserialize the values.",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
"""The client properties that no query may set, each with Spark's message."""


@dataclass(frozen=True)
class SourceOptions:
    """Options of one source, with the checks that batch and streaming queries share.

    `starting` and `ending` are None if they are not set: the default depends on the kind of query. So take the
    limits from `batch_limits` or `stream_start`, which also check the rules of that kind of query.
    """

    strategy: Strategy
    client: ClientConfig
    properties: Mapping[str, str] = field(repr=False)
    """The `kafka.*` options, without that prefix; passwords may be among them.

    References (`${file:…}`) are resolved: executors need not have what these name, and keep connections by the values.
    """
    starting: Limit | None = None
    ending: Limit | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = DEFAULT_MAX_TRIGGER_DELAY_S
    max_bytes_per_trigger: int | None = None
    max_bytes_per_partition: int | None = None
    commit_group: str | None = None
    """The consumer group to which the offsets that were read are committed, for lag tools."""
    filter_pushdown: bool = False
    small_batch_bytes: int = DEFAULT_SMALL_BATCH_BYTES
    """The planner reads micro-batches of at most this many bytes (`driver.small_batches`); 0: none."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """The most bytes that one record batch of the log may have once it is decompressed."""
    keep_freed_memory: int = 0
    """Bytes of freed memory that a Python worker keeps (`python_worker`); 0: the default of the C library."""
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    given: frozenset[str] = field(default=frozenset())
    """Names of the options that were set, in lower case."""
    token_cluster: clusters.TokenCluster | None = None
    """The cluster whose delegation token the query takes, or None. Without the token, `client` cannot log in."""
    token_ends_at: int | None = None
    """The end of the delegation token by which `client` logs in, in milliseconds since 1970; None if it has none."""

    @classmethod
    def parse(cls, options: Mapping[str, str], shown_prefix: str = "kafka.") -> SourceOptions:
        """Check and convert options.

        Args:
            options: The options, by name.
            shown_prefix: What stands before the names of client properties where the user writes them.

        Raises:
            OptionsError: An option is wrong. The message is that of Spark's source where it has one.
        """
        given = Given(options)
        strategy = parse_strategy(given)
        min_partitions = given.get("minPartitions", positive_int32, None)
        max_records = given.get("maxRecordsPerPartition", positive, None)
        properties = given.with_prefix("kafka.")
        for name, message in REFUSED_PROPERTIES.items():
            if name in properties:
                raise OptionsError(message)
        if not properties.get("bootstrap.servers", "").strip():
            raise missing_servers(options, "consumer")
        try:
            properties = resolve(properties)
            cluster = clusters.cluster_for(properties, application_settings(options))
            client = ClientConfig.from_dict(properties if cluster is None else cluster.with_token(properties, None))
        except ConfigError as error:
            raise OptionsError(f"{shown_prefix}{error}") from None
        starting = parse_limit(given, "starting")
        _warn_about_strategies(given, starting)
        _warn_about_groups(given, shown_prefix)
        _warn_about_unknown(options, client, shown_prefix)
        least = given.get("minOffsetsPerTrigger", positive, None)
        most = given.get("maxOffsetsPerTrigger", positive, None)
        if least is not None and most is not None and least > most:
            raise OptionsError(
                f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            )
        return cls(
            strategy=strategy,
            client=client,
            properties=properties,
            starting=starting,
            ending=parse_limit(given, "ending"),
            fail_on_data_loss=given.get("failOnDataLoss", boolean, True),
            include_headers=given.get("includeHeaders", boolean, False),
            min_partitions=min_partitions,
            max_records_per_partition=max_records,
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_bytes_per_trigger=given.get("maxBytesPerTrigger", size, None),
            max_bytes_per_partition=given.get("maxBytesPerPartition", size, None),
            commit_group=given.get("commitGroup", _group, None),
            filter_pushdown=given.get("filterPushdown", boolean, False),
            small_batch_bytes=given.get("smallBatchBytes", size_or_none, DEFAULT_SMALL_BATCH_BYTES),
            max_batch_bytes=given.get("maxBatchBytes", batch_size, DEFAULT_MAX_BATCH_BYTES),
            keep_freed_memory=given.get("keepFreedMemory", size_or_none, 0),
            max_trigger_delay_s=given.get("maxTriggerDelay", duration, DEFAULT_MAX_TRIGGER_DELAY_S),
            poll_timeout_ms=given.get("kafkaConsumer.pollTimeoutMs", positive, DEFAULT_POLL_TIMEOUT_MS),
            offset_retries=given.get("fetchOffset.numRetries", not_negative, 3),
            offset_retry_interval_ms=given.get("fetchOffset.retryIntervalMs", not_negative, 10),
            given=frozenset(name.lower() for name in options),
            token_cluster=cluster,
        )

    def token(self) -> DelegationToken | None:
        """Return the token that the query logs in by, on the driver; None where it has another login, or none.

        Raises:
            OptionsError: The settings `spark.kafka.clusters.…` are no client properties.
            AuthenticationError: The brokers give no token.
            ConnectionFailedError: They cannot be asked at present.
        """
        if self.token_cluster is None:
            return None
        from spark_kafkalog.delegation.tokens import token_for

        return token_for(self.token_cluster)

    def with_token(self, token: DelegationToken | None) -> SourceOptions:
        """Return the options of a query that logs in by `token` and gets no other; the same ones without `token`."""
        if token is None or self.token_cluster is None:
            return self
        properties = self.token_cluster.with_token(self.properties, token)
        client = ClientConfig.from_dict(properties)
        ends_at = token.expires_at
        return replace(self, client=client, properties=properties, token_cluster=None, token_ends_at=ends_at)

    def logged_in(self) -> SourceOptions:
        """Return options with which clients can log in, on the driver. Raises the errors of `token`."""
        return self.with_token(self.token())

    @property
    def client_rack(self) -> str:
        """The rack of the readers (`kafka.client.rack`): leaders name followers there to read from (KIP-392)."""
        return self.properties.get("client.rack", "")

    def batch_limits(self) -> tuple[Limit, Limit]:
        """Return start and end of a batch query.

        Raises:
            OptionsError: Only a stream may have the limits, or they are in the wrong order.
        """
        starting = self.starting or AtEnd(EARLIEST)
        ending = self.ending or AtEnd(LATEST)
        if starting == AtEnd(LATEST):
            raise OptionsError("starting offset can't be latest for batch queries on Kafka")
        if isinstance(starting, AtOffsets):
            for tp, offset in starting.offsets.items():
                if offset == LATEST:
                    raise OptionsError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
        if ending == AtEnd(EARLIEST):
            raise OptionsError("ending offset can't be earliest for batch queries on Kafka")
        if isinstance(ending, AtOffsets):
            for tp, offset in ending.offsets.items():
                if offset == EARLIEST:
                    raise OptionsError(f"ending offset for {tp} can't be earliest for batch queries on Kafka")
        check_order(starting, ending)
        for name in _BATCH_IGNORED:
            if name.lower() in self.given:
                logger.warning("%s option ignored in batch queries", name)
        return starting, ending

    def stream_start(self) -> Limit:
        """Return the start of a new streaming query.

        Raises:
            OptionsError: Only a batch may have one of the options.
        """
        for name, message in _STREAM_REFUSED.items():
            if name.lower() in self.given:
                raise OptionsError(message)
        for name in _STREAM_IGNORED:
            if name.lower() in self.given:
                logger.warning("%s option ignored in streaming queries", name)
        return self.starting or AtEnd(LATEST)


def _group(name: str, text: str) -> str:
    if not text.strip():
        raise OptionsError(f"{name}: the name of a consumer group is expected, got '{text}'")
    return text.strip()


def _warn_about_strategies(given: Given, starting: Limit | None) -> None:
    """Warn about a strategy for another kind of start than the query's. `error` is the default, and changes nothing."""
    if is_lenient(given, OFFSETS_STRATEGY) and not isinstance(starting, AtOffsets):
        logger.warning(
            "Option %s has no effect: it is for partitions that startingOffsets leaves out, and this query does not "
            "start at offsets of single partitions",
            OFFSETS_STRATEGY,
        )
    if is_lenient(given, TIMESTAMPS_STRATEGY) and not isinstance(starting, AtTimestamp | AtTimestamps):
        logger.warning(
            "Option %s has no effect: it is for startingTimestamp and startingOffsetsByTimestamp, and this query has "
            "neither",
            TIMESTAMPS_STRATEGY,
        )


def _warn_about_groups(given: Given, prefix: str) -> None:
    if "kafka.group.id" in given:
        logger.warning(
            "Kafka option '%sgroup.id' has been set on this query, it is not recommended to set this option. "
            "The query assigns partitions itself and never joins the group.",
            prefix,
        )
        if "groupIdPrefix" in given:
            logger.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")


def _warn_about_unknown(options: Mapping[str, str], client: ClientConfig, prefix: str) -> None:
    """Warn about unknown options: a misspelt one would otherwise be ignored silently."""
    known = {name.lower() for name in _OPTIONS}
    for name in sorted(options):
        if name.lower() not in known and not name.lower().startswith(("kafka.", clusters.PREFIX)):
            close = get_close_matches(name.lower(), known, n=1)
            meant = [option for option in _OPTIONS if option.lower() in close]
            hint = f"; did you mean {meant[0]}?" if meant else ""
            logger.warning("Option %s is not known and has no effect%s", name, hint)
    unknown = client.unknown.keys() - {"group.id", "client.rack"}
    if idle := ", ".join(f"{prefix}{name}" for name in sorted(unknown & _OF_GROUPS)):
        logger.warning("without effect here: %s (no consumer group is joined)", idle)
    for text in warnings_about(unknown - _OF_GROUPS, "Option", prefix):
        logger.warning("%s", text)
