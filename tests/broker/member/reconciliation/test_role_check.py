"""Differences between the roles that a broker holds and those in ZooKeeper."""

from __future__ import annotations

import uuid
from dataclasses import replace

from broker.member.reconciliation.role_check import CLOCKS_APART_MS, Finding, Held, Kind, Topic, compare
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode

ME, OTHER = 2, 1
ID, FORMER_ID = uuid.UUID(int=7), uuid.UUID(int=6)
CREATED_MS = 1_000_000_000
TOPIC = Topic(TopicNode(ID, {0: Assignment((OTHER, ME)), 1: Assignment((OTHER, 3))}), CREATED_MS)
STATE = StateNode(leader=OTHER, leader_epoch=4, isr=(OTHER, ME), controller_epoch=1, partition_epoch=9)
FOLLOWS = Held(leader_epoch=4, partition_epoch=2, has_log=True, topic_id=ID)
LOG = Held(has_log=True, topic_id=ID)


def kind(held: Held, topic: Topic | None = TOPIC, state: StateNode | None = STATE, index: int = 0) -> Kind | None:
    found: Finding | None = compare(ME, index, held, topic, state)
    return None if found is None else found.kind


def test_a_role_that_agrees_is_left_alone() -> None:
    assert kind(FOLLOWS) is None
    # A follower is not told of each ISR; what ZooKeeper tells may be a moment behind.
    assert kind(replace(FOLLOWS, leader_epoch=5)) is None


def test_a_role_that_is_missing_or_old_is_asked_for() -> None:
    assert kind(LOG) is Kind.ASK
    assert kind(Held()) is Kind.ASK
    found = compare(ME, 0, replace(FOLLOWS, leader_epoch=3, is_leader=True), TOPIC, STATE)
    assert found == (
        Kind.ASK,
        "its role is of leader epoch 3, and the cluster's leader epoch is 4, with leader 1",
    )


def test_a_partition_that_never_had_a_leader_or_whose_log_failed_is_left_alone() -> None:
    assert kind(LOG, state=None) is None
    assert kind(Held(is_offline=True)) is None


def test_a_leader_takes_over_the_isr_in_force() -> None:
    leads = replace(FOLLOWS, is_leader=True, partition_epoch=8)
    state = replace(STATE, leader=ME)
    assert kind(leads, state=state) is Kind.ADOPT
    assert kind(replace(leads, is_proposing=True), state=state) is None
    assert kind(replace(leads, partition_epoch=9), state=state) is None
    assert kind(replace(leads, is_leader=False), state=state) is None


def test_a_role_that_is_not_assigned_is_given_up_and_its_log_set_aside() -> None:
    for topic, index, why in (
        (None, 0, "the cluster has no such topic"),
        (TOPIC, 1, "it is not assigned to this broker any more"),
        (TOPIC, 2, "the topic has no such partition"),
    ):
        assert compare(ME, index, FOLLOWS, topic, None) == (Kind.RESIGN, why)
        assert compare(ME, index, LOG, topic, None) == (Kind.SET_ASIDE, why)
        assert compare(ME, index, Held(), topic, None) is None


def test_a_log_of_a_topic_that_was_created_again_makes_room() -> None:
    before = replace(LOG, topic_id=FORMER_ID, is_offline=True, log_since_ms=CREATED_MS - CLOCKS_APART_MS)
    assert kind(before) is Kind.SET_ASIDE
    assert kind(replace(before, leader_epoch=4)) is Kind.RESIGN
    # It is not assigned here, so nothing depends on it.
    assert kind(replace(before, log_since_ms=None), index=1) is Kind.SET_ASIDE


def test_logs_stay_where_only_the_id_was_lost() -> None:
    after = replace(LOG, topic_id=FORMER_ID, is_offline=True, log_since_ms=CREATED_MS + 100)
    assert kind(after) is None
    assert kind(replace(after, log_since_ms=CREATED_MS - CLOCKS_APART_MS + 1)) is None
    assert kind(replace(after, log_since_ms=None)) is None
    assert kind(replace(after, leader_epoch=4, is_offline=False)) is None


def test_an_id_that_is_not_known_says_nothing() -> None:
    unnamed = Topic(TopicNode(None, TOPIC.node.partitions), CREATED_MS)
    assert kind(FOLLOWS, unnamed) is None
    assert kind(replace(FOLLOWS, topic_id=None)) is None
