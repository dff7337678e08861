"""Options of `kafkalog acls`: those of kafka-acls.sh (AclCommand), and what they name."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import UsageError, add_repeated
from kafkalog.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

if TYPE_CHECKING:
    from kafkalog.cli.admin.security.acls.bindings import Entry, Resource
    from kafkalog.cli.admin.security.acls.explaining import Question

ANY_HOST = "*"
PATTERN_TYPES = ("ANY", "MATCH", "LITERAL", "PREFIXED")
_NAMED = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "delegation_token": "DELEGATION_TOKEN",
    "user_principal": "USER",
}
"""Options that name resources, and their types."""


def add_resources(parser: argparse.ArgumentParser) -> None:
    """Add the options that name resources."""
    for option, what in (
        ("topic", "a topic"),
        ("group", "a consumer group"),
        ("transactional-id", "a transactional id"),
        ("delegation-token", "a delegation token"),
        ("user-principal", "a user, for operations with that user's tokens"),
    ):
        add_repeated(parser, f"--{option}", metavar="NAME", purpose=f"{what}; * for all")
    parser.add_argument("--cluster", action="store_true", help="the cluster")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=PATTERN_TYPES,
        default="LITERAL",
        help="whether names are literal or prefixes (default: %(default)s); for list and remove also any, or match: "
        "all that apply to the name",
    )


def add_entries(parser: argparse.ArgumentParser) -> None:
    """Add the options that say who may do what."""
    for verb, noun in (("allow", "allowed"), ("deny", "denied")):
        who = f"who is {noun} the operations, such as User:ann; User:* for everyone"
        add_repeated(parser, f"--{verb}-principal", metavar="TYPE:NAME", purpose=who)
        where = f"the address from which they are {noun} (default: any)"
        add_repeated(parser, f"--{verb}-host", metavar="ADDRESS", purpose=where)
    add_repeated(parser, "--operation", metavar="OPERATION", purpose="such as Read (default: All)")
    parser.add_argument("--producer", action="store_true", help="what a producer needs for --topic")
    parser.add_argument("--idempotent", action="store_true", help="with --producer: also what idempotence needs")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs for --topic and --group")


def principal(text: str) -> str:
    """Parse a principal.

    Raises:
        UsageError: It has no type.
    """
    found = text.strip()
    if ":" not in found:
        raise UsageError(f"expected a string in format principalType:principalName but got {found}")
    return found


def resources(arguments: argparse.Namespace) -> list[Resource]:
    """Return the resources that the options name."""
    from kafkalog.cli.admin.security.acls.bindings import Resource

    pattern = AclPatternType[arguments.resource_pattern_type]
    found = [
        Resource(AclResourceType[kind], name if option == "transactional_id" else name.strip(), pattern)
        for option, kind in _NAMED.items()
        for name in getattr(arguments, option)
    ]
    if pattern is AclPatternType.LITERAL and (arguments.cluster or getattr(arguments, "idempotent", False)):
        found.append(_cluster())
    return list(dict.fromkeys(found))


def entries_by_resource(arguments: argparse.Namespace) -> dict[Resource, list[Entry]]:
    """Return the entries that the options say about each resource.

    Raises:
        UsageError: The options contradict each other, name no resource, or an operation that a resource does not have.
    """
    _check(arguments)
    named = resources(arguments)
    if not named:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    found: dict[Resource, dict[Entry, None]] = {}

    def note(some: Iterable[Resource], operations: Collection[AclOperation]) -> None:
        for resource in some:
            found.setdefault(resource, {}).update(dict.fromkeys(_entries(arguments, operations)))

    if not arguments.producer and not arguments.consumer:
        note(named, _operations(arguments.operation))
    if arguments.producer:
        note(_of("TOPIC", named), _operations(("WRITE", "DESCRIBE", "CREATE")))
        note(_of("TRANSACTIONAL_ID", named), _operations(("WRITE", "DESCRIBE")))
        note([_cluster()] if arguments.idempotent else (), _operations(("IDEMPOTENTWRITE",)))
    if arguments.consumer:
        note(_of("TOPIC", named), _operations(("READ", "DESCRIBE")))
        note(_of("GROUP", named), _operations(("READ",)))
    for resource, entries in found.items():
        _check_operations(resource.type, entries)
    return {resource: list(entries) for resource, entries in found.items()}


def _check(arguments: argparse.Namespace) -> None:
    """Check which options go together, as AclCommandOptions.checkArgs does.

    Raises:
        UsageError: They do not.
    """
    for role in ("producer", "consumer"):
        for other in ("operation", "deny_principal", "deny_host"):
            if getattr(arguments, role) and getattr(arguments, other):
                raise UsageError(f"""Option "{role}" can't be used with option "{other.replace("_", "-")}\"""")
    if arguments.producer and not arguments.topic:
        raise UsageError("With --producer you must specify a --topic")
    if arguments.idempotent and not arguments.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    more = arguments.cluster or arguments.transactional_id
    if arguments.consumer and (not arguments.topic or not arguments.group or (not arguments.producer and more)):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


def _entries(arguments: argparse.Namespace, operations: Collection[AclOperation]) -> list[Entry]:
    from kafkalog.cli.admin.security.acls.bindings import Entry

    sides: tuple[tuple[AclPermission, list[str], list[str]], ...] = (
        (AclPermission.ALLOW, arguments.allow_principal, arguments.allow_host),
        (AclPermission.DENY, arguments.deny_principal, arguments.deny_host),
    )
    return [
        Entry(principal(each), host.strip(), operation, permission)
        for permission, principals, hosts in sides
        for each in principals
        for operation in operations
        for host in hosts or [ANY_HOST]
    ]


def _operations(names: Collection[str]) -> list[AclOperation]:
    """Return the operations of these names, which are Kafka's: DescribeConfigs, in any case; ALL without names.

    Raises:
        UsageError: There is no such operation.
    """
    known = {each.name.replace("_", ""): each for each in AclOperation if each > AclOperation.ANY}
    found = []
    for name in names or ("ALL",):
        operation = known.get(name.strip().upper())
        if operation is None:
            raise UsageError(f"--operation {name}: expected one of {', '.join(each.title for each in known.values())}")
        found.append(operation)
    return list(dict.fromkeys(found))


def operation(name: str, kind: AclResourceType) -> AclOperation:
    """Return the operation with resources of a type that has the name.

    Raises:
        UsageError: There is no such operation.
    """
    (found,) = _operations((name,))
    _check_supported(kind, [found])
    return found


def adding(question: Question) -> str:
    """Return the command that allows what a question is about."""
    kind = question.resource_type.name
    option = next((each for each, type_name in _NAMED.items() if type_name == kind), "cluster")
    words = ["kafkalog", "acls", "add", "--allow-principal", question.principal]
    words += ["--operation", question.operation.title, f"--{option.replace('_', '-')}"]
    words += [] if option == "cluster" else [question.name]
    words += [] if question.host is None else ["--allow-host", question.host]
    return shlex.join(words)


def _check_operations(kind: AclResourceType, entries: Iterable[Entry]) -> None:
    _check_supported(kind, (entry.operation for entry in entries))


def _check_supported(kind: AclResourceType, operations: Iterable[AclOperation]) -> None:
    valid = (AclOperation.ALL, *OPERATIONS[kind])
    if any(each not in valid for each in operations):
        names = ", ".join(each.title for each in valid)
        raise UsageError(f"ResourceType {kind.name} only supports operations {names}")


def _of(kind: str, named: Iterable[Resource]) -> list[Resource]:
    return [resource for resource in named if resource.type.name == kind]


def _cluster() -> Resource:
    from kafkalog.cli.admin.security.acls.bindings import Resource

    return Resource(AclResourceType.CLUSTER, CLUSTER_NAME, AclPatternType.LITERAL)
