"""Test the headers of positions that tell of which topic and leader epoch they are."""

from __future__ import annotations

from uuid import UUID

from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH, epoch_headers, epoch_of, id_headers, id_of
from kafkalog.protocol.schema import ZERO_UUID


def test_ids_and_epochs_come_back() -> None:
    headers = [*id_headers(UUID(int=7)), *epoch_headers(5)]
    assert headers == [("kafkalog.topic.id", UUID(int=7).bytes), ("kafkalog.leader.epoch", b"\0\0\0\5")]
    assert (id_of(headers), epoch_of(headers)) == (UUID(int=7), 5)


def test_what_is_unknown_has_no_header() -> None:
    assert [*id_headers(ZERO_UUID), *epoch_headers(NO_EPOCH)] == []
    for headers in (
        [],
        [("kafkalog.topic.id", b"x"), ("kafkalog.leader.epoch", b"x")],
        [("kafkalog.leader.epoch", None)],
    ):
        assert (id_of(headers), epoch_of(headers)) == (ZERO_UUID, NO_EPOCH)
