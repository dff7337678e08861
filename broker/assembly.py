"""Builds the parts of a broker that serve requests, and connects them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.api.context import Broker
from broker.api.fetch.fetch_session import FetchSessionCache
from broker.api.large import CHECKING_WORKERS, FullCollections, Lanes, Turns, release
from broker.api.shared_metadata import SharedMetadata
from broker.config.protocol_version import Feature
from broker.config.security.authorizer import super_users
from broker.config.server import BrokerConfig
from broker.controller.auto_creation import AutoCreation
from broker.controller.channel import LoneChannel
from broker.controller.cluster.controller import ClusterController
from broker.controller.cluster_topics import ClusterExecution
from broker.controller.configs import ConfigController, effective_config
from broker.controller.controller_ids import ControllerIds
from broker.controller.producer_ids import BLOCK, ProducerIds, blocks_of
from broker.controller.publisher import ConfigPublisher
from broker.controller.quotas import QuotaController
from broker.controller.security.acls import AclController, follow
from broker.controller.security.delegation_tokens import DelegationTokens, TokenLimits
from broker.controller.security.scram_users import ScramUsers
from broker.controller.topic_execution import DeletionListeners
from broker.controller.topics import TopicController, lone_topics
from broker.coordinator.group.classic.classic_groups import ClassicGroups
from broker.coordinator.group.kip848.consumer_groups import ConsumerGroups
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.transaction.service import ClusterAccess, Transactions
from broker.member.member import ClusterMember
from broker.metadata.cache import MetadataCache
from broker.metadata.store import MetadataStore
from broker.metadata.znodes.acls import name_fault
from broker.net.session import ANONYMOUS
from broker.quota.client import ClientQuotas
from broker.quota.connections import ConnectionRates
from broker.quota.measures import Window
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.security.authorizer.authorizer import Authorizer
from broker.system.workers import WorkerShare
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.api_keys import ApiKey

logger = logging.getLogger(__name__)

AHEAD = BLOCK // 10
"""The number of producer ids that are left when the next block is fetched, in a cluster."""


def assemble(
    config: BrokerConfig,
    broker_id: int,
    store: MetadataStore,
    cache: MetadataCache,
    replicas: ReplicaManager,
    applier: ReplicaApplier,
    *,
    member: ClusterMember | None = None,
    controller: ClusterController | None = None,
    log_starts_changed: Callable[[], None] = lambda: None,
) -> Broker:
    """Make the parts that serve requests over the partitions that `replicas` hosts.

    Args:
        config: the configuration of the broker's file, without dynamic values.
        broker_id: the id of this broker.
        store: the store to which this broker's controller commits its decisions.
        cache: the broker's view of the cluster. It must have subscribed to `store` already.
        replicas: the partitions.
        applier: applies the controller's decisions to the partitions of `replicas`.
        member: what makes the broker a member of a cluster, if it is one.
        controller: the candidate for the controller of that cluster.
        log_starts_changed: called when clients have deleted records, so that log start offsets are checkpointed soon.
    """
    runtime = replicas.runtime
    window = Window(config["quota.window.num"], config["quota.window.size.seconds"] * 1000)
    controller_window = Window(
        config["controller.quota.window.num"], config["controller.quota.window.size.seconds"] * 1000
    )
    quotas, rates = ClientQuotas(window, controller_window), ConnectionRates(window)
    quota_controller = QuotaController(runtime.network, store, cache, quotas, rates)
    publisher = ConfigPublisher(
        cache, replicas, lambda state: effective_config(config, state, broker_id, replicas.config), quota_controller
    )
    store.subscribe(publisher.publish)
    authorizer = _authorizer(config, store)
    if member is None:
        topics = lone_topics(store, cache, replicas, LoneChannel(broker_id, applier))
        producer_ids = ProducerIds(blocks_of(store), store)
        access = None
    else:
        topics = _cluster_topics(store, cache, replicas, member)
        producer_ids = _cluster_producer_ids(config, store, cache, member)
        version = config.protocol_version.request_version(ApiKey.WRITE_TXN_MARKERS)
        access = ClusterAccess(
            cache, member.links.connect, version, member.partition_counts.read, member.partition_counts.is_absent
        )
    groups = GroupCoordinator(
        replicas=replicas, topics=topics, read_count=None if member is None else member.partition_counts.read
    )
    transactions = Transactions(
        replicas=replicas,
        topics=topics,
        allocate_producer_id=producer_ids.allocate,
        reserve_producer_ids=producer_ids.reserve,
        on_offsets=lambda marker, written: groups.on_marker(marker.producer_id, marker.committed, written),
        now_ms=runtime.now_ms,
        cluster=access,
    )
    return Broker(
        runtime=runtime,
        broker_id=broker_id,
        metadata=cache,
        replicas=replicas,
        topics=topics,
        auto_creation=AutoCreation(topics),
        configs=ConfigController(
            store, cache, replicas, config, broker_id, publisher.settled, has_groups=member is None
        ),
        producer_ids=producer_ids,
        quotas=quotas,
        connection_rates=rates,
        quota_controller=quota_controller,
        authorizer=authorizer,
        acls=AclController(store, cache, (lambda name: None) if member is None else name_fault),
        scram_users=ScramUsers(store, cache),
        tokens=_tokens(config, store, cache, runtime),
        publisher=publisher,
        groups=groups,
        classic_groups=ClassicGroups(groups),
        consumer_groups=ConsumerGroups(groups, cache),
        transactions=transactions,
        fetch_sessions=FetchSessionCache(
            config["max.incremental.fetch.session.cache.slots"],
            free=lambda partitions: runtime.workers.run(release, partitions),
            chance=runtime.random,
        ),
        lanes=Lanes(runtime.workers),
        checking=WorkerShare(runtime.workers, CHECKING_WORKERS),
        turns=Turns(runtime.seconds),
        collections=FullCollections(runtime.collector),
        shared_metadata=SharedMetadata(cache, runtime.loop),
        member=member,
        controller=controller,
        log_starts_changed=log_starts_changed,
    )


def _authorizer(config: BrokerConfig, store: MetadataStore) -> Authorizer | None:
    """Make the authorizer, which follows the entries in the store, if there is to be one."""
    if not config.has_authorizer:
        return None
    authorizer = Authorizer(
        super_users(config["super.users"]),
        allow_if_none=config["allow.everyone.if.no.acl.found"],
        acls=store.state.acls,
    )
    store.subscribe(follow(authorizer))
    listener = config.advertised.get(config.inter_broker_listener)
    is_anonymous = config.is_member and listener is not None and listener.protocol == "PLAINTEXT"
    if is_anonymous and not authorizer.rules.may_from_somewhere(
        ANONYMOUS, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
    ):
        logger.warning(
            "Brokers reach each other as %s on the listener %s, and nothing allows that principal ClusterAction: this "
            "broker will not learn of its cluster. Allow it from the brokers' addresses by an ACL of the cluster, or "
            "name it in super.users",
            ANONYMOUS,
            config.inter_broker_listener,
        )
    return authorizer


def _tokens(
    config: BrokerConfig, store: MetadataStore, cache: MetadataCache, runtime: Runtime
) -> DelegationTokens | None:
    if config.token_secret is None:
        return None
    limits = TokenLimits(config["delegation.token.max.lifetime.ms"], config["delegation.token.expiry.time.ms"])
    secret = config.token_secret
    tokens = DelegationTokens(store, cache, runtime.workers, secret, limits, runtime.now_ms, runtime.loop)
    store.subscribe(tokens.publish)
    return tokens


def _cluster_topics(
    store: MetadataStore, cache: MetadataCache, replicas: ReplicaManager, member: ClusterMember
) -> TopicController:
    listeners = DeletionListeners()
    execution = ClusterExecution(store, cache, listeners, member)
    return TopicController(store, cache, replicas, execution, listeners)


def _cluster_producer_ids(
    config: BrokerConfig, store: MetadataStore, cache: MetadataCache, member: ClusterMember
) -> ProducerIds:
    if not config.protocol_version.has(Feature.ALLOCATE_PRODUCER_IDS):
        return ProducerIds(blocks_of(store), ahead=AHEAD)
    ids = ControllerIds(member.links.connect, lambda: cache.image, member.broker_id, member.epoch)
    return ProducerIds(ids.take, ahead=AHEAD, close=ids.close)
