"""Test `kafkalog acls`; `test_tools_beside_kafka` compares it with Kafka's tool."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator

import pytest

from kafkalog.cli.admin.security.acls import add_parser, options
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.client.admin.security.acls import AclBinding
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission
from kafkalog.protocol.acls import AclResourceType as Kind
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkalog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkalog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import Ended, call
from tests.support.scripted import ScriptedBroker, metadata

WORDS = "ResourcePattern(resourceType=TOPIC, name=words, patternType=LITERAL)"


def named(*words: str) -> dict[str, list[str]]:
    """Return what the options of `acls add` say about each resource, as text."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["acls", "add", "--bootstrap-server", "x", *words])
    return {
        f"{resource.type.name}:{resource.name}:{resource.pattern.name}": [
            f"{entry.permission.name} {entry.principal} {entry.operation.name} {entry.host}" for entry in entries
        ]
        for resource, entries in options.entries_by_resource(arguments).items()
    }


def test_options_name_resources_and_their_entries() -> None:
    assert named("--topic", " words ", "--topic", "*", "--allow-principal", "User:ann") == {
        "TOPIC:words:LITERAL": ["ALLOW User:ann ALL *"],
        "TOPIC:*:LITERAL": ["ALLOW User:ann ALL *"],
    }
    assert named(
        "--group", "g", "--resource-pattern-type", "prefixed", "--operation", "Read", "--operation", "describe",
        "--allow-principal", "User:ann", "--allow-host", "10.0.0.1", "--deny-principal", "User:a:b",
    ) == {
        "GROUP:g:PREFIXED": [
            "ALLOW User:ann READ 10.0.0.1", "ALLOW User:ann DESCRIBE 10.0.0.1",
            "DENY User:a:b READ *", "DENY User:a:b DESCRIBE *",
        ]
    }  # fmt: skip
    assert named("--cluster", "--operation", "DescribeConfigs", "--allow-principal", "User:*") == {
        "CLUSTER:kafka-cluster:LITERAL": ["ALLOW User:* DESCRIBE_CONFIGS *"]
    }
    assert named("--topic", "words") == {"TOPIC:words:LITERAL": []}


def test_producer_and_consumer_stand_for_the_operations_that_they_need() -> None:
    who = ("--topic", "words", "--allow-principal", "User:ann")
    producer = ["WRITE", "DESCRIBE", "CREATE"]

    def said(*words: str) -> dict[str, list[str]]:
        return {key.split(":")[0]: [each.split()[2] for each in entries] for key, entries in named(*words).items()}

    assert said(*who, "--producer") == {"TOPIC": producer}
    assert said(*who, "--producer", "--idempotent", "--transactional-id", "t", "--group", "g") == {
        "TOPIC": producer, "TRANSACTIONAL_ID": ["WRITE", "DESCRIBE"], "CLUSTER": ["IDEMPOTENT_WRITE"],
    }  # fmt: skip
    assert said(*who, "--consumer", "--group", "g") == {"TOPIC": ["READ", "DESCRIBE"], "GROUP": ["READ"]}
    assert said(*who, "--consumer", "--producer", "--group", "g") == {"TOPIC": [*producer, "READ"], "GROUP": ["READ"]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "You must provide at least one resource"),
        (("--cluster", "--resource-pattern-type", "prefixed"), "You must provide at least one resource"),
        (("--topic", "t", "--producer", "--operation", "Read"), 'Option "producer" can\'t be used with option "oper'),
        (("--topic", "t", "--consumer", "--deny-host", "*"), 'used with option "deny-host"'),
        (("--group", "g", "--producer"), "With --producer you must specify a --topic"),
        (("--topic", "t", "--idempotent"), "only available if --producer is set"),
        (("--topic", "t", "--consumer"), "With --consumer you must specify a --topic and a --group"),
        (("--topic", "t", "--consumer", "--group", "g", "--cluster"), "With --consumer you must specify"),
        (("--topic", "t", "--operation", "Fly", "--allow-principal", "User:a"), "--operation Fly: expected one of All"),
        (("--group", "t", "--operation", "Write", "--allow-principal", "User:a"), "GROUP only supports operations All"),
        (("--topic", "t", "--allow-principal", "ann"), "expected a string in format principalType:principalName"),
    ],
)
def test_options_that_cannot_be_used_together_or_read(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        named(*words)
    assert says in str(raised.value)


class Authorizer:
    """A broker that keeps ACLs in memory, and finds them by exact resources."""

    def __init__(self) -> None:
        self.kept: list[AclBinding] = []
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({1: self.broker}, {}),
                DescribeAclsRequest: self._describe,
                CreateAclsRequest: self._create,
                DeleteAclsRequest: self._delete,
            }
        )

    def _describe(self, request: DescribeAclsRequest) -> DescribeAclsResponse:
        kind, name = request.resource_type_filter, request.resource_name_filter
        return DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=each.resource_type, resource_name=each.name, pattern_type=each.pattern_type,
                    acls=[
                        AclDescription(
                            principal=each.principal, host=each.host, operation=each.operation,
                            permission_type=each.permission,
                        )
                    ],
                )
                for each in self.kept
                if kind == Kind.ANY or (kind, name) == (each.resource_type, each.name)
            ]
        )  # fmt: skip

    def _create(self, request: CreateAclsRequest) -> CreateAclsResponse:
        return CreateAclsResponse(results=[self._created(each) for each in request.creations])

    def _created(self, wanted: AclCreation) -> AclCreationResult:
        if wanted.principal == "User:nobody":
            return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="nobody is nobody")
        self.kept.append(
            AclBinding(
                Kind(wanted.resource_type), wanted.resource_name, wanted.principal, AclOperation(wanted.operation),
                AclPermission(wanted.permission_type), wanted.host, AclPatternType(wanted.resource_pattern_type),
            )
        )  # fmt: skip
        return AclCreationResult()

    def _delete(self, request: DeleteAclsRequest) -> DeleteAclsResponse:
        for each in request.filters:
            self.kept = [binding for binding in self.kept if not self._selects(each, binding)]
        return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult() for _ in request.filters])

    def _selects(self, wanted: DeleteAclsFilter, binding: AclBinding) -> bool:
        return (
            (wanted.resource_type_filter, wanted.resource_name_filter, wanted.pattern_type_filter)
            == (binding.resource_type, binding.name, binding.pattern_type)
            and wanted.principal_filter in (None, binding.principal)
            and wanted.host_filter in (None, binding.host)
            and wanted.operation in (AclOperation.ANY, binding.operation)
            and wanted.permission_type in (AclPermission.ANY, binding.permission)
        )

    def __call__(self, *words: str, check: int = 0) -> Ended:
        return call("acls", *words, "--bootstrap-server", self.broker.address, check=check)


@pytest.fixture
def acls() -> Iterator[Authorizer]:
    authorizer = Authorizer()
    with authorizer.broker:
        yield authorizer


def test_adding_listing_and_removing(acls: Authorizer) -> None:
    added = acls("add", "--topic", "words", "--allow-principal", "User:ann", "--operation", "Read")
    entry = "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"
    # As `println` of AclCommand writes it, with its blanks at the ends of lines.
    assert added.out == [f"Adding ACLs for resource `{WORDS}`: ", f" \t{entry} ", ""]
    acls("--add", "--topic", "words", "--deny-principal", "User:eve", "--deny-host", "10.0.0.1")
    acls("add", "--topic", "w", "--resource-pattern-type", "prefixed", "--allow-principal", "User:ann")
    denied = "(principal=User:eve, host=10.0.0.1, operation=ALL, permissionType=DENY)"
    of_words = [f"Current ACLs for resource `{WORDS}`: ", f" \t{entry}", f"\t{denied} ", ""]
    of_prefix = [
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=w, patternType=PREFIXED)`: ",
        " \t(principal=User:ann, host=*, operation=ALL, permissionType=ALLOW) ",
        "",
    ]
    assert acls("list").out == of_prefix + of_words
    assert acls("--list", "--topic", "words", "--topic", "words").out == of_words
    assert acls("list", "--principal", "User:eve", "--principal", "User:x").out == [
        "ACLs for principal `User:eve`", of_words[0], f" \t{denied} ", "", "ACLs for principal `User:x`",
    ]  # fmt: skip
    (row,) = acls("list", "--principal", "User:eve", "--json").out
    assert json.loads(row) == {
        "resource_type": "TOPIC", "name": "words", "pattern_type": "LITERAL", "principal": "User:eve",
        "host": "10.0.0.1", "operation": "ALL", "permission_type": "DENY",
    }  # fmt: skip
    acls("remove", "--topic", "words", "--allow-principal", "User:ann", "--operation", "Read", "--force")
    assert [each.principal for each in acls.kept] == ["User:eve", "User:ann"]
    acls("remove", "--topic", "words", "--force")
    assert [each.name for each in acls.kept] == ["w"]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("Y\n", 0), ("n\n", 1), ("yes\n", 1)])
def test_a_question_comes_first(acls: Authorizer, monkeypatch: pytest.MonkeyPatch, answer: str, left: int) -> None:
    acls("add", "--topic", "words", "--allow-principal", "User:ann")
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    asked = acls("remove", "--topic", "words")
    assert asked.out == [f"Are you sure you want to delete all ACLs for resource filter `{WORDS}`? (y/n)"]
    assert len(acls.kept) == left
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert acls("remove", "--topic", "words", "--allow-principal", "User:ann").out == [
        "Are you sure you want to remove ACLs: ",
        " \t(principal=User:ann, host=*, operation=ALL, permissionType=ALLOW) ",
        f" from resource filter `{WORDS}`? (y/n)",
    ]


def test_a_question_without_an_answer_is_an_error(acls: Authorizer, monkeypatch: pytest.MonkeyPatch) -> None:
    acls("add", "--topic", "words", "--allow-principal", "User:ann")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ended = acls("remove", "--topic", "words", check=2)
    assert ended.err == "kafkalog: standard input has ended without an answer; --force asks no questions\n"
    assert len(acls.kept) == 1


def test_an_acl_that_the_broker_refuses_does_not_keep_the_others_from_being_added(acls: Authorizer) -> None:
    who = ("--allow-principal", "User:nobody", "--allow-principal", "User:ann")
    ended = acls("add", "--topic", "words", "--topic", "pages", *who, check=1)
    assert [(each.name, each.principal) for each in acls.kept] == [("words", "User:ann"), ("pages", "User:ann")]
    assert ended.err.count("nobody is nobody") == 2


def test_adding_needs_a_principal_and_a_specific_pattern(acls: Authorizer) -> None:
    assert "You must specify one of: --allow-principal" in acls("add", "--topic", "words", check=2).err
    who = ("--topic", "words", "--allow-principal", "User:ann", "--resource-pattern-type", "match")
    assert "'MATCH' is not valid when adding acls" in acls("add", *who, check=2).err


def test_a_cluster_without_an_authorizer(broker_address: str) -> None:
    ended = call("acls", "list", "--bootstrap-server", broker_address, check=1)
    assert ended.out == []
    assert ended.err == "kafkalog: ACLs: No Authorizer is configured on the broker\n"
