"""Test that a member that was removed does not set its group back to what it had read."""

from __future__ import annotations

import pytest

from kafkalog.client.admin.groups.descriptions import MemberToRemove
from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import CommitFailedError
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.producer import Producer
from kafkalog.client.transactions.errors import AbortableTransactionError
from kafkalog.client.types import TopicPartition
from tests.kafkalog.client.consumer.conftest import OURS
from tests.kafkalog.client.consumer.support import Live, take, values
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("live", [OURS], indirect=True)]


def test_a_removed_member_commits_nothing_although_its_group_is_empty(live: Live) -> None:
    """A group without members takes commits of anybody, but not of one that was a member."""
    topic, group = live.topic(), live.group()
    live.produce(topic, 0, values(5))
    tp = TopicPartition(topic, 0)
    with live.consumer(group, enable_auto_commit=False) as removed:
        removed.subscribe([topic])
        take(removed, 5)
        known, coordinator = removed.group_metadata(), removed._coordinator
        assert isinstance(coordinator, ClassicCoordinator)
        with GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": live.address})) as admin:
            admin.remove_members(group, [MemberToRemove(known.member_id)])
        wait_until(lambda: not coordinator.generation.valid, "it has learnt of its removal")
        with live.consumer(group, enable_auto_commit=False) as other:
            other.subscribe([topic])
            take(other, 5)
            other.commit()
        with pytest.raises(CommitFailedError):
            removed.commit({tp: 1})
        assert removed.group_metadata() == known
        with Producer({"bootstrap.servers": live.address, "transactional.id": group}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            with pytest.raises(AbortableTransactionError):
                producer.send_offsets_to_transaction({tp: 1}, removed.group_metadata())
            producer.abort_transaction()
        assert removed.committed([tp])[tp].offset == 5
