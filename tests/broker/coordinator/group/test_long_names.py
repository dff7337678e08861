"""Test that names which no record of a group can hold are refused before the group changes.

Bytes that are not UTF-8 become three bytes each, so a name of 20,000 bytes that a request may carry can be too long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.coordinator.group.classic.requests import JoinRequest
from broker.coordinator.group.kip848.model import NO_PARTITIONS
from broker.coordinator.group.membership import Moment
from kafkalog.protocol.errors import ErrorCode, InvalidGroupIdError, InvalidRequestError
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.broker.api.groups.groups_support import subscription
from tests.broker.coordinator.group.running import ANYBODY, T0, Start, at
from tests.broker.coordinator.group.serving import Serving

LONG = "\ufffd" * 20_000
LONGEST = "c" * 32_767
"""A name of the most bytes that a string has."""
JOINING: dict[str, Any] = {
    "group_id": "g", "member_id": "ghost", "rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}  # fmt: skip
CLASSIC = JoinRequest("", None, "client", "/h", 10_000, 10_000, "consumer", (("range", subscription("t")),))


async def refused(serving: Serving, joins: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await joins
    assert not serving.broker.groups.groups()


@pytest.mark.parametrize(
    "fields",
    [{"member_id": LONG}, {"instance_id": LONG}, {"rack_id": LONG}, {"subscribed_topic_names": ["t", LONG]}],
    ids=lambda fields: next(iter(fields)),
)
def test_heartbeats(serving: Serving, fields: dict[str, Any]) -> None:
    async def work() -> None:
        response = await serving.ask(ConsumerGroupHeartbeatRequest(**{**JOINING, **fields}), 1)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "32767 bytes" in response.error_message
        assert not serving.broker.groups.groups()

    serving.run(work())


def test_a_client_id_of_a_heartbeat(serving: Serving) -> None:
    message = ConsumerGroupHeartbeatRequest(**JOINING)
    joins = serving.broker.consumer_groups.heartbeat(message, 1, LONG, "/h", NO_PARTITIONS)
    serving.run(refused(serving, joins, InvalidRequestError))


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": LONG},
        {"instance_id": LONG},
        {"client_id": LONG},
        {"client_id": LONGEST},
        {"protocol_type": LONG},
        {"protocols": ((LONG, b""),)},
    ],
    ids=["member id", "instance id", "client id", "made member id", "protocol type", "protocol"],
)
def test_members_of_the_classic_protocol(serving: Serving, fields: dict[str, Any]) -> None:
    joins = serving.broker.classic_groups.join("g", replace(CLASSIC, **fields))
    serving.run(refused(serving, joins, InvalidRequestError))


def test_a_name_that_just_fits(serving: Serving) -> None:
    async def work() -> None:
        response = await serving.ask(ConsumerGroupHeartbeatRequest(**{**JOINING, "instance_id": LONGEST}), 1)
        assert response.error_code == ErrorCode.NONE

    serving.run(work())


def test_the_other_members_go_on(serving: Serving) -> None:
    async def work() -> None:
        assert (await serving.ask(ConsumerGroupHeartbeatRequest(**{**JOINING, "member_id": "a"}), 1)).member_epoch == 1
        ghost = ConsumerGroupHeartbeatRequest(**{**JOINING, "member_id": LONG})
        assert (await serving.ask(ghost, 1)).error_code == ErrorCode.INVALID_REQUEST
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
        classic = JoinGroupRequest(
            group_id="g", member_id=LONG, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
        assert (await serving.ask(classic, 9)).error_code == ErrorCode.INVALID_REQUEST
        beats = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
        assert (await serving.ask(beats, 1)).error_code == ErrorCode.NONE
        assert [member.member_id for member in serving.broker.consumer_groups.describe("g").members] == ["a"]

    serving.run(work())


def test_members_with_long_ids_are_fenced(serving: Serving) -> None:
    """Their sessions end together, such as after their coordinator has moved. One batch would be too large."""
    group_id, members = LONGEST, [f"{number}{LONGEST[1:]}" for number in range(6)]

    async def work() -> None:
        for member in members:
            joins = {**JOINING, "group_id": group_id, "member_id": member}
            assert (await serving.ask(ConsumerGroupHeartbeatRequest(**joins), 1)).error_code == ErrorCode.NONE
        partition_groups = serving.broker.groups.partition_groups_for(group_id)
        group = partition_groups.groups[group_id]
        now = serving.broker.groups.now()
        late = Moment(now.ms + 3_600_000, now.wall_ms + 3_600_000)
        for _ in members:
            group.membership.wake(late)
            partition_groups.settle(group)
        assert group.membership.is_empty
        serving.broker.groups.stop()

    serving.run(work())


@pytest.mark.parametrize("protocol", ["classic", "consumer", "offsets"])
def test_group_ids(serving: Serving, protocol: str) -> None:
    """Such a group could be neither stored nor removed."""
    asked: Any
    if protocol == "classic":
        asked = serving.broker.classic_groups.join(LONG, CLASSIC)
    elif protocol == "consumer":
        message = ConsumerGroupHeartbeatRequest(**{**JOINING, "group_id": LONG})
        asked = serving.broker.consumer_groups.heartbeat(message, 1, "c", "/h", NO_PARTITIONS)
    else:
        asked = serving.broker.groups.commit(LONG, ANYBODY, {T0: at(5)})
    serving.run(refused(serving, asked, InvalidGroupIdError))


def test_metadata_of_a_commit(start: Start) -> None:
    """The other partitions of the request are committed."""
    running = start(offset_metadata_max_bytes="30000")
    running.ready()
    offsets = {T0: at(5)._replace(metadata=LONG), ("t", 1): at(6)}
    errors = running.run(running.groups.commit("g", ANYBODY, offsets))
    assert errors == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert running.groups.offsets_of("g").partitions() == [("t", 1)]
    running.groups.stop()
