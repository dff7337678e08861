"""Test DescribeAcls, CreateAcls and DeleteAcls of a lone broker over a socket."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from broker.controller.security import acls
from broker.metadata.json_form import from_json
from broker.metadata.local import FILE_NAME
from broker.metadata.operations import SetAcls
from broker.security.authorizer.model import AclEntry, ResourcePattern
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from tests.broker.replica.in_process import InProcess, SlowDisk, Wire, with_broker

CLUSTER = ResourcePattern(AclResourceType.CLUSTER, AclPatternType.LITERAL, CLUSTER_NAME)
ADMIN = frozenset({AclEntry("User:ANONYMOUS", "127.0.0.1", AclOperation.ALL, AclPermission.ALLOW)})
SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def creation(**changes: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": AclResourceType.TOPIC,
        "resource_name": "words",
        "resource_pattern_type": AclPatternType.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermission.ALLOW,
    }
    return AclCreation(**(values | changes))


def deletion(**changes: Any) -> DeleteAclsFilter:
    values: dict[str, Any] = {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": AclPatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermission.ANY,
    }
    return DeleteAclsFilter(**(values | changes))


async def administrator(broker: InProcess) -> Wire:
    await broker.server.store.commit(lambda state: [SetAcls(CLUSTER, ADMIN)])
    return await broker.connect()


async def described(wire: Wire, version: int = 3, **changes: Any) -> Any:
    wanted = deletion(resource_type_filter=AclResourceType.TOPIC)
    values = {field.name: getattr(wanted, field.name) for field in wanted.fields} | changes
    return await wire.exchange(DescribeAclsRequest(**values), version)


async def names(wire: Wire, **changes: Any) -> list[str]:
    found = await described(wire, **changes)
    assert found.error_code == 0
    return sorted(
        f"{AclPatternType(each.pattern_type).name} {each.resource_name} "
        f"{acl.principal} {AclOperation(acl.operation).name}"
        for each in found.resources
        for acl in each.acls
    )


def test_entries_are_created_once_described_and_deleted(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        prefixed = creation(resource_pattern_type=AclPatternType.PREFIXED, resource_name="wo", principal="User:*")
        for _ in range(2):
            answer = await wire.exchange(CreateAclsRequest(creations=[creation(), creation(), prefixed]), 3)
            assert [each.error_code for each in answer.results] == [0, 0, 0]
        assert await names(wire) == ["LITERAL words User:ann READ", "PREFIXED wo User:* READ"]
        assert await names(wire, principal_filter="User:*") == ["PREFIXED wo User:* READ"]
        assert len(await names(wire, pattern_type_filter=AclPatternType.MATCH, resource_name_filter="words")) == 2
        filters = [
            deletion(resource_name_filter="words"),
            deletion(resource_type_filter=AclResourceType.TOPIC),
            deletion(principal_filter="User:nobody"),
        ]
        answer = await wire.exchange(DeleteAclsRequest(filters=filters), 3)
        found = [[each.resource_name for each in result.matching_acls] for result in answer.filter_results]
        assert found == [["words"], ["wo"], []]
        assert await names(wire) == []

    with_broker(tmp_path, work, SETTINGS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": AclResourceType.CLUSTER},
        {"resource_name": ""},
        {"resource_type": AclResourceType.ANY},
        {"resource_type": 0},
        {"resource_type": 99},
        {"operation": AclOperation.ANY},
        {"operation": 0},
        {"operation": AclOperation.TWO_PHASE_COMMIT},
        {"permission_type": AclPermission.ANY},
        {"resource_pattern_type": AclPatternType.MATCH},
        {"resource_pattern_type": AclPatternType.ANY},
        {"principal": "ann"},
        {"host": ""},
    ],
)
def test_an_entry_that_can_be_none_is_refused_and_the_others_are_created(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        answer = await wire.exchange(CreateAclsRequest(creations=[creation(**wrong), creation()]), 3)
        assert [each.error_code for each in answer.results] == [ErrorCode.INVALID_REQUEST, 0]
        assert await names(wire) == ["LITERAL words User:ann READ"]

    with_broker(tmp_path, work, SETTINGS)


def test_version_0_knows_literal_patterns_only(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        prefixed = creation(resource_pattern_type=AclPatternType.PREFIXED)
        await wire.exchange(CreateAclsRequest(creations=[creation(), prefixed]), 1)
        found = await described(wire, 0, pattern_type_filter=AclPatternType.LITERAL)
        assert [each.resource_name for each in found.resources] == ["words"]
        wanted = deletion(resource_type_filter=AclResourceType.TOPIC, pattern_type_filter=AclPatternType.LITERAL)
        await wire.exchange(DeleteAclsRequest(filters=[wanted]), 0)
        assert await names(wire) == ["PREFIXED words User:ann READ"]

    with_broker(tmp_path, work, SETTINGS)


def test_unknown_elements_of_a_filter_are_refused(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        assert (await described(wire, operation=0)).error_code == ErrorCode.INVALID_REQUEST
        answer = await wire.exchange(DeleteAclsRequest(filters=[deletion(permission_type=0), deletion()]), 3)
        assert [each.error_code for each in answer.filter_results] == [ErrorCode.INVALID_REQUEST, 0]

    with_broker(tmp_path, work, SETTINGS)


def test_entries_are_on_the_disk_before_the_answer_and_in_force_after_a_restart(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        await wire.exchange(CreateAclsRequest(creations=[creation()]), 3)
        path = tmp_path / FILE_NAME
        (stored,) = (each for each in from_json(path.read_text(), str(path)).acls if each != CLUSTER)
        assert stored.name == "words"

    async def again(broker: InProcess) -> None:
        wire = await broker.connect()
        assert await names(wire) == ["LITERAL words User:ann READ"]

    with_broker(tmp_path, work, SETTINGS)
    with_broker(tmp_path, again, SETTINGS)


class FullDisk(SlowDisk):
    """While `is_full` is set, the registry cannot be written."""

    __slots__ = ("is_full",)

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if self.is_full and path.endswith(f"{FILE_NAME}.tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, flags, mode)


def test_what_cannot_be_stored_is_not_in_force(tmp_path: Path) -> None:
    disk = FullDisk()

    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        await wire.exchange(CreateAclsRequest(creations=[creation(principal="User:bob")]), 3)
        disk.is_full = True
        answer = await wire.exchange(CreateAclsRequest(creations=[creation(), creation(principal="ann")]), 3)
        assert [each.error_code for each in answer.results] == [
            ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REQUEST,
        ]  # fmt: skip
        deleted = await wire.exchange(DeleteAclsRequest(filters=[deletion(principal_filter="User:bob")]), 3)
        assert deleted.filter_results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert deleted.filter_results[0].matching_acls == []
        assert await names(wire) == ["LITERAL words User:bob READ"]
        disk.is_full = False
        answer = await wire.exchange(CreateAclsRequest(creations=[creation()]), 3)
        assert answer.results[0].error_code == 0
        assert await names(wire) == ["LITERAL words User:ann READ", "LITERAL words User:bob READ"]

    with_broker(tmp_path, work, SETTINGS, disk=disk)


@pytest.mark.parametrize("at_once", [1, 1000])
def test_changes_at_the_same_time_are_all_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(acls, "LOOKED_AT_ONCE", at_once)

    async def work(broker: InProcess) -> None:
        wires = [await administrator(broker) for _ in range(8)]

        async def change(number: int, wire: Wire) -> None:
            mine = creation(principal=f"User:{number}")
            await wire.exchange(CreateAclsRequest(creations=[mine]), 3)
            if number % 2:
                await wire.exchange(DeleteAclsRequest(filters=[deletion(principal_filter=mine.principal)]), 3)

        await asyncio.gather(*(change(number, wire) for number, wire in enumerate(wires)))
        assert await names(wires[0]) == [f"LITERAL words User:{number} READ" for number in (0, 2, 4, 6)]

    with_broker(tmp_path, work, SETTINGS)


def test_others_have_their_turn_while_filters_look_at_many_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acls, "AT_ONCE", 50)
    monkeypatch.setattr(acls, "LOOKED_AT_ONCE", 10)
    count, filters = 500, 20

    async def work(broker: InProcess) -> None:
        wire = await administrator(broker)
        turns = 0

        async def counting() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        creations = [creation(resource_name=f"topic-{number}") for number in range(count)]
        answer = await wire.exchange(CreateAclsRequest(creations=creations), 3)
        assert {each.error_code for each in answer.results} == {0}
        assert broker.server.store.state.revision >= count / 50
        task = asyncio.ensure_future(counting())
        wanted = [deletion(principal_filter="User:nobody")] * (filters - 1)
        wanted.append(deletion(resource_type_filter=AclResourceType.TOPIC))
        answer = await wire.exchange(DeleteAclsRequest(filters=wanted), 3)
        task.cancel()
        assert len(answer.filter_results[-1].matching_acls) == count
        assert turns >= count * filters / 10
        assert await names(wire) == []
        too_many = [creation()] * 10_001
        answer = await wire.exchange(CreateAclsRequest(creations=too_many), 3)
        assert {each.error_code for each in answer.results} == {ErrorCode.POLICY_VIOLATION}

    with_broker(tmp_path, work, SETTINGS)


def test_without_an_authorizer_there_are_no_entries(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        wire = await broker.connect()
        assert (await described(wire)).error_code == ErrorCode.SECURITY_DISABLED
        created = await wire.exchange(CreateAclsRequest(creations=[creation()]), 3)
        deleted = await wire.exchange(DeleteAclsRequest(filters=[deletion()]), 3)
        codes = [created.results[0].error_code, deleted.filter_results[0].error_code]
        assert codes == [ErrorCode.SECURITY_DISABLED] * 2

    with_broker(tmp_path, work)
