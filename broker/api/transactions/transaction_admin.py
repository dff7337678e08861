"""DescribeProducers, DescribeTransactions and ListTransactions: administrators inspect transactions (KIP-664)."""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import Answering, error_code
from broker.controller.decisions.planning import check_topic_name
from broker.coordinator.transaction.machine import STATES_BY_TITLE, TransactionMachine, TransactionState
from broker.log.producer_state.producer_entry import NO_SEQUENCE, ProducerEntry
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages import describe_transactions, list_transactions
from kafkalog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)


async def handle_describe_producers(request: Request) -> None:
    message: DescribeProducersRequest = request.message
    seen: set[tuple[str, int]] = set()
    topics = [await _producers_of(request, topic, seen) async for topic in request.each(message.topics)]
    await request.answer(DescribeProducersResponse(topics=topics))


async def _producers_of(request: Request, topic: TopicRequest, seen: set[tuple[str, int]]) -> TopicResponse:
    """Describe the producers of a topic's partitions, but of those that the request has named before."""
    failed: KafkaError | None = None
    try:
        check_topic_name(topic.name)
        if not request.allows(AclOperation.READ, AclResourceType.TOPIC, topic.name, count=len(topic.partition_indexes)):
            raise TopicAuthorizationFailedError
        if request.broker.metadata.topic(topic.name) is None:
            raise UnknownTopicOrPartitionError
    except KafkaError as error:
        failed = error
    partitions = []
    async for index in request.each(topic.partition_indexes):
        response = PartitionResponse(partition_index=index)
        with Answering(response):
            if failed is not None:
                raise failed
            # Followers answer, too: tools ask a certain broker about all of its replicas.
            partition = request.broker.replicas.require(topic.name, index)
            if (topic.name, index) in seen:
                # A partition may have 100,000s of producers, and is described once.
                continue
            seen.add((topic.name, index))
            producers = list(partition.log.producers.producers.items())
            response.active_producers = [_producer(*item) async for item in request.each(producers)]
        partitions.append(response)
    return TopicResponse(name=topic.name, partitions=partitions)


def _producer(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


async def handle_describe_transactions(request: Request) -> None:
    message: describe_transactions.DescribeTransactionsRequest = request.message
    wanted = await request.distinct(message.transactional_ids)
    states = [_described(request, transactional_id) async for transactional_id in request.each(wanted)]
    await request.answer(describe_transactions.DescribeTransactionsResponse(transaction_states=states), wanted)


def _described(request: Request, transactional_id: str) -> describe_transactions.TransactionState:
    state = describe_transactions.TransactionState(transactional_id=transactional_id)
    with Answering(state):
        if not request.allows(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
            raise TransactionalIdAuthorizationFailedError
        _describe(request, state, request.broker.transactions.coordinator.describe(transactional_id))
    return state


def _describe(request: Request, state: describe_transactions.TransactionState, machine: TransactionMachine) -> None:
    current = machine.current
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(machine.unmarked if current.state.is_decided else current.partitions):
        if request.sees(AclResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(index)
    state.producer_id = current.producer_id
    state.producer_epoch = current.producer_epoch
    state.transaction_state = current.state.title
    state.transaction_timeout_ms = current.timeout_ms
    state.transaction_start_time_ms = current.started_ms
    state.topics = [describe_transactions.TopicData(topic=topic, partitions=ids) for topic, ids in topics.items()]


async def handle_list_transactions(request: Request) -> None:
    message: list_transactions.ListTransactionsRequest = request.message
    response = list_transactions.ListTransactionsResponse()
    try:
        machines = request.broker.transactions.coordinator.all()
    except KafkaError as error:
        response.error_code = error_code(error)
        request.reply(response)
        return
    states, unknown = set(), []
    async for title in request.each(message.state_filters):
        if title in STATES_BY_TITLE:
            states.add(STATES_BY_TITLE[title])
        else:
            unknown.append(title)
    response.unknown_state_filters = unknown
    is_filtered = bool(message.state_filters)
    ids = {producer_id async for producer_id in request.each(message.producer_id_filters)}
    now = request.broker.now_ms()

    def is_wanted(machine: TransactionMachine) -> bool:
        current = machine.current
        return (
            machine.pending is not TransactionState.DEAD
            and (not ids or current.producer_id in ids)
            and (not is_filtered or current.state in states)
            # As in Kafka, the state does not matter: an id that never had a transaction counts as very old.
            and (message.duration_filter < 0 or now - current.started_ms > message.duration_filter)
            and request.sees(AclResourceType.TRANSACTIONAL_ID, machine.transactional_id)
        )

    response.transaction_states = [
        list_transactions.TransactionState(
            transactional_id=machine.transactional_id,
            producer_id=machine.current.producer_id,
            transaction_state=machine.current.state.title,
        )
        async for machine in request.each(machines)
        if is_wanted(machine)
    ]
    await request.answer(response, ids)


HANDLERS = {
    DescribeProducersRequest: handle_describe_producers,
    describe_transactions.DescribeTransactionsRequest: handle_describe_transactions,
    list_transactions.ListTransactionsRequest: handle_list_transactions,
}
