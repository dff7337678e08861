"""Topics are deleted; the cases of Kafka's `TopicDeletionManagerTest`."""

from __future__ import annotations

from broker.controller.cluster.events import brokers, topics
from broker.controller.cluster.events.answers import decisions_for, deleted_replicas
from broker.controller.cluster.machine import deletion
from broker.controller.cluster.model.context import ReplicaKey
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.topics import Assignment
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from tests.broker.controller.cluster.world import World


def made(*, delete_topics: bool = True) -> World:
    world = World(delete_topics=delete_topics)
    world.make_topic("words", [(1, 2), (2, 3)], {"retention.ms": "1"})
    world.make_topic("others", [(1, 3)])
    world.take_over()
    world.forget()
    return world


def order(world: World, *names: str) -> None:
    for name in names:
        world.make(paths.delete_topic(name))
    world.run(topics.deletions_changed(world.context))


def answer(world: World, error: dict[int, ErrorCode] | None = None) -> None:
    """Answer the StopReplica requests that delete logs; `error` is that of all partitions of a broker."""
    sent, world.sent = world.sent, []
    for request in sent:
        if not isinstance(request.message, StopReplicaRequest) or not request.deleted:
            continue
        code = (error or {}).get(request.broker_id, ErrorCode.NONE)
        response = StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
                for topic, index in sorted(request.deleted)
            ]
        )
        done, failed = deleted_replicas(world.context, request.broker_id, request, response)
        if failed:
            world.run(deletion.failed(world.context, failed, "a test"))
        if done:
            world.run(deletion.succeeded(world.context, done))


def test_a_topic_goes_when_all_its_replicas_are_gone() -> None:
    world = made()
    order(world, "words")
    # Brokers forget it before its logs go, and no epoch stops a deletion.
    assert world.informed()[3] == {("words", 0): (-2, (1, 2)), ("words", 1): (-2, (2, 3))}
    assert {(broker, key) for broker, key, epoch, delete in world.stops() if delete and epoch == -2} == {
        (1, ("words", 0)),
        (2, ("words", 0)),
        (2, ("words", 1)),
        (3, ("words", 1)),
    }
    assert not world.roles()
    assert world.tree.exists(paths.topic("words"))
    answer(world)
    for path in (paths.topic("words"), paths.config("topics", "words"), paths.delete_topic("words")):
        assert not world.tree.exists(path)
    assert paths.topic("words") not in world.watched
    assert "words" not in world.context.assignments
    assert not world.context.deleting
    assert not [key for key in world.context.states if key[0] == "words"]
    assert "words" not in world.context.topic_ids


def test_a_topic_that_is_created_anew_as_soon_as_it_is_gone_keeps_its_configuration_and_is_not_deleted() -> None:
    world = made()
    order(world, "words")

    def create_anew() -> None:
        if not world.tree.exists(paths.topic("words")):
            world.make_topic("words", [(3,)], {"retention.ms": "2"})

    world.on_write = create_anew
    answer(world)
    create_anew()
    assert configs.decode("", world.tree.read(paths.config("topics", "words")).data) == {"retention.ms": "2"}
    assert not world.tree.names(paths.DELETE_TOPICS)
    world.run(topics.topics_changed(world.context, world.chance))
    assert world.state("words").leader == 3
    assert paths.topic("words") in world.watched


def test_a_topic_whose_order_is_gone_is_deleted_all_the_same() -> None:
    world = made()
    order(world, "words")
    world.remove(paths.delete_topic("words"))
    answer(world)
    assert not world.tree.exists(paths.topic("words"))
    assert "words" not in world.context.assignments


def test_a_topic_that_was_created_anew_when_the_answer_was_lost_stays() -> None:
    world = made()
    order(world, "words")

    def carry_out_before() -> None:
        """Do what a request did whose answer was lost, before it is sent again; then the topic is created anew."""
        root = paths.topic("words")
        if not world.tree.names(root) and not world.tree.exists(paths.config("topics", "words")):
            world.remove(root)
            world.remove(paths.delete_topic("words"))
            world.make_topic("words", [(3,)], {"retention.ms": "2"})

    world.on_write = carry_out_before
    answer(world)
    assert world.topic("words").partitions == {0: Assignment((3,))}
    assert "words" not in world.context.assignments


def test_an_order_stays_as_long_as_its_topic_cannot_be_deleted() -> None:
    world = made()
    order(world, "words")
    child = f"{paths.topic('words')}/somebody"

    def obstruct() -> None:
        if not world.tree.exists(paths.partitions("words")) and not world.tree.exists(child):
            world.make(child)

    world.on_write = obstruct
    answer(world)
    assert world.tree.exists(paths.delete_topic("words"))
    assert world.context.deleting == {"words"}
    assert paths.topic("words") in world.watched
    world.on_write = lambda: None
    world.run(deletion.go_on(world.context))
    assert not world.tree.exists(paths.topic("words"))
    assert not world.tree.exists(paths.delete_topic("words"))
    assert not world.context.deleting


def test_a_replica_that_cannot_be_deleted_is_tried_again_when_its_broker_starts() -> None:
    world = made()
    order(world, "words")
    answer(world, {2: ErrorCode.KAFKA_STORAGE_ERROR})
    assert world.tree.exists(paths.topic("words"))
    assert world.context.ineligible == {"words"}
    assert not any(delete for _, _, _, delete in world.stops())
    world.register(2)
    world.run(brokers.brokers_changed(world.context))
    assert {broker for broker, _, _, delete in world.stops() if delete} == {2}
    answer(world)
    assert not world.tree.exists(paths.topic("words"))


def test_a_deletion_waits_for_brokers_that_are_gone() -> None:
    world = made()
    world.deregister(3)
    world.run(brokers.brokers_changed(world.context))
    world.forget()
    order(world, "words")
    answer(world)
    assert world.tree.exists(paths.topic("words"))
    assert world.context.ineligible == {"words"}
    world.register(3)
    world.run(brokers.brokers_changed(world.context))
    answer(world)
    assert not world.tree.exists(paths.topic("words"))


def test_a_broker_may_go_while_it_deletes() -> None:
    world = made()
    order(world, "words")
    sent = [request for request in world.sent if request.broker_id != 3]
    world.sent = sent
    answer(world)
    world.deregister(3)
    world.run(brokers.brokers_changed(world.context))
    assert world.tree.exists(paths.topic("words"))
    world.forget()
    world.register(3)
    world.run(brokers.brokers_changed(world.context))
    # Those that are deleted are not told again.
    assert {(broker, key) for broker, key, _, delete in world.stops() if delete} == {(3, ("words", 1))}
    answer(world)
    assert not world.tree.exists(paths.topic("words"))


def test_topics_that_do_not_exist_are_not_deleted() -> None:
    world = made()
    order(world, "nothing")
    assert not world.tree.exists(paths.delete_topic("nothing"))
    assert not world.context.deleting


def test_orders_are_dropped_where_deletion_is_disabled() -> None:
    world = made(delete_topics=False)
    order(world, "words")
    assert not world.tree.names(paths.DELETE_TOPICS)
    assert world.tree.exists(paths.topic("words"))
    assert not world.sent


def test_a_topic_that_is_deleted_gets_no_partitions() -> None:
    world = made()
    order(world, "words")
    known = dict(world.topic("words").partitions)
    world.make_topic("words", [(1, 2), (2, 3), (3, 1)])
    world.run(topics.partitions_changed(world.context, ["words"]))
    assert world.topic("words").partitions == known


def test_a_controller_that_takes_over_goes_on() -> None:
    world = made()
    world.make(paths.delete_topic("words"))
    # The former controller has deleted the nodes of this one, but not the order.
    world.make(paths.delete_topic("gone"))
    world.make(paths.config("topics", "gone"), configs.encode({}))
    next_one = World()
    next_one.tree = world.tree
    next_one.take_over()
    assert not world.tree.exists(paths.delete_topic("gone"))
    assert not world.tree.exists(paths.config("topics", "gone"))
    answer(next_one)
    assert not world.tree.exists(paths.topic("words"))
    assert world.tree.exists(paths.topic("others"))


def test_answers_count_only_for_logs_that_are_deleted() -> None:
    world = made()
    order(world, "words")
    (request,) = [each for each in world.sent if each.broker_id == 1 and each.deleted]
    response = StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(topic_name="others", partition_index=0),
            StopReplicaPartitionError(topic_name="words", partition_index=0),
        ]
    )
    done, failed = deleted_replicas(world.context, 1, request, response)
    assert (done, failed) == ([ReplicaKey("words", 0, 1)], [])
    response.error_code = ErrorCode.STALE_CONTROLLER_EPOCH
    assert deleted_replicas(world.context, 1, request, response) == ([], done)


def test_a_broker_that_refuses_the_whole_request_has_deleted_nothing() -> None:
    world = made()
    order(world, "words")
    (request,) = [each for each in world.sent if each.broker_id == 2 and each.deleted]
    asked = [ReplicaKey("words", 0, 2), ReplicaKey("words", 1, 2)]
    refused = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert deleted_replicas(world.context, 2, request, refused) == ([], asked)
    assert deleted_replicas(world.context, 2, request, StopReplicaResponse()) == ([], asked)


def test_a_late_refusal_of_a_process_that_is_gone_stops_no_deletion() -> None:
    """The present process of the broker was asked meanwhile, and its answer must find the deletion under way."""
    world = made()
    order(world, "words")
    (refused,) = [each for each in world.sent if each.broker_id == 1 and each.deleted]
    refusal = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    late = list(decisions_for(world.context, 1, refused, refusal))
    assert late
    # The requests to the former process are gone with its connection.
    world.sent.remove(refused)
    answer(world)
    world.register(1)
    world.run(brokers.brokers_changed(world.context))
    for _, decide in late:
        world.run(decide(world.context))
    answer(world)
    assert not world.tree.exists(paths.topic("words"))
