"""Test what becomes of commits that a coordinator refuses, and of callbacks that raise errors."""

from __future__ import annotations

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.group.group_requests import CommitAnswer
from kafkalog.client.types import OffsetAndMetadata, TopicPartition

TP = TopicPartition("t", 0)


def test_a_callback_that_raises_as_the_consumer_closes_does_not_keep_it_in_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        raise LookupError("of the callback")

    reasons: list[str] = []
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    consumer._subscription.subscribe(["t"])
    member = consumer._coordinator
    assert member is not None
    monkeypatch.setattr(member.requests, "commit", lambda *given: CommitAnswer(0))
    monkeypatch.setattr(member, "leave", lambda reason, timeout: reasons.append(reason))
    consumer.commit_async({TP: 3}, callback=refuse)
    with pytest.raises(LookupError, match="of the callback"):
        consumer.close()
    assert reasons == ["the consumer is being closed"]
