"""`kafkalog acls`: list, add and remove access control lists, as kafka-acls.sh does, and explain them.

- `options`     the options, and the resources and entries that they name
- `bindings`    their text, in the form of Kafka's tool
- `explaining`  why a principal may or may not do something
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kafkalog.cli.admin.security.acls import options
from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    complain_of,
    examples_of,
    print_json,
    reporting,
)

if TYPE_CHECKING:
    from kafkalog.cli.admin.security.acls.bindings import Entry, Resource
    from kafkalog.cli.admin.security.acls.explaining import Explanation, Question
    from kafkalog.client.admin import AclBinding, Admin

EXAMPLES = """\
examples:
  kafkalog acls list --bootstrap-server localhost:9092
  kafkalog acls list --bootstrap-server localhost:9092 --topic words --resource-pattern-type match
  kafkalog acls add --bootstrap-server localhost:9092 --allow-principal User:ann --producer --topic words
  kafkalog acls add --bootstrap-server localhost:9092 --allow-principal User:ann --consumer --topic words --group count
  kafkalog acls add --bootstrap-server localhost:9092 --deny-principal User:eve --operation All --topic '*'
  kafkalog acls explain --bootstrap-server localhost:9092 --principal User:ann --operation Write --topic words
  kafkalog acls remove --bootstrap-server localhost:9092 --topic words --force
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `acls` and its actions."""
    commands = add_command(subparsers, "acls", "list, add, remove and explain access control lists", EXAMPLES)
    listing = _add(commands, "list", "list the ACLs of resources; without any, all ACLs")
    add_repeated(listing, "--principal", metavar="TYPE:NAME", purpose="only its ACLs")
    listing.add_argument("--json", action="store_true", help="one object a line for each ACL")
    listing.set_defaults(run=run_list)
    explaining = _add(commands, "explain", "tell why a principal may or may not do something; exit with 1 if not")
    explaining.add_argument("--principal", required=True, metavar="TYPE:NAME", help="who, such as User:ann")
    explaining.add_argument("--operation", required=True, help="what, such as Read")
    explaining.add_argument("--host", metavar="ADDRESS", help="from where (default: an address that no ACL names)")
    explaining.add_argument("--json", action="store_true", help="one object")
    explaining.set_defaults(run=run_explain)
    adding = _add(commands, "add", "allow and deny principals operations with resources")
    options.add_entries(adding)
    adding.set_defaults(run=run_add)
    removing = _add(commands, "remove", "remove ACLs; without a principal, all ACLs of the resources")
    options.add_entries(removing)
    removing.add_argument("--force", action="store_true", help="ask no questions")
    removing.set_defaults(run=run_remove)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    parser = add_action(commands, name, purpose, examples_of(EXAMPLES, f"acls {name}"))
    options.add_resources(parser)
    return parser


@reporting
def run_list(arguments: argparse.Namespace) -> int:
    """Print the ACLs of the resources that the options name."""
    from kafkalog.cli.admin.security.acls.bindings import shown
    from kafkalog.client.admin import AclFilter, Admin

    principals = list(map(options.principal, arguments.principal))
    filters = [each.filter() for each in options.resources(arguments)] or [AclFilter()]
    with Admin(admin_config(arguments)) as admin:
        found = list(dict.fromkeys(binding for each in filters for binding in admin.acls.describe(each)))
    if arguments.json:
        for binding in found:
            if not principals or binding.principal in principals:
                print_json(_row(binding))
        return 0
    if not principals:
        print(shown(found), end="")
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        print(shown([binding for binding in found if binding.principal == principal]), end="")
    return 0


def _row(binding: AclBinding) -> dict[str, object]:
    return {
        "resource_type": binding.resource_type.name,
        "name": binding.name,
        "pattern_type": binding.pattern_type.name,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation.name,
        "permission_type": binding.permission.name,
    }


@reporting
def run_explain(arguments: argparse.Namespace) -> int:
    """Print which ACL decides, or which nearly does and what would help; return 1 if it is denied."""
    from kafkalog.cli.admin.security.acls.explaining import Question, explain
    from kafkalog.client.admin import AclFilter, Admin

    resources = options.resources(arguments)
    if len(resources) != 1 or arguments.resource_pattern_type != "LITERAL":
        raise UsageError("explain is about one resource: name one topic, group, transactional id or the cluster")
    (resource,) = resources
    operation = options.operation(arguments.operation, resource.type)
    question = Question(options.principal(arguments.principal), operation, resource.type, resource.name, arguments.host)
    with Admin(admin_config(arguments)) as admin:
        found = explain(question, admin.acls.describe(AclFilter(resource.type)))
    if arguments.json:
        deciding = None if found.deciding is None else _row(found.deciding)
        near = [{**_row(each.binding), "reason": each.reason} for each in found.near]
        print_json({"is_allowed": found.is_allowed, "deciding": deciding, "has_acls": found.has_acls, "near": near})
    else:
        _tell(question, found)
    return 0 if found.is_allowed else 1


def _tell(question: Question, found: Explanation) -> None:
    from kafkalog.cli.admin.security.acls.bindings import of_binding

    kind = question.resource_type.name.lower().replace("_", " ")
    verb = "may" if found.is_allowed else "may not"
    print(f"{question.principal} {verb} {question.operation.title} {kind} {question.name}.")
    if found.deciding is not None:
        print(f"This ACL decides: {of_binding(found.deciding)}")
    elif found.has_acls:
        print("No ACL allows it, unless it is a super user of the brokers.")
    else:
        print(f"No ACL is about this {kind}: allow.everyone.if.no.acl.found decides, which is false by default.")
        print("Super users of the brokers may do everything.")
    for near in found.near:
        print(f"Near: {of_binding(near.binding)}: {near.reason}")
    if found.deciding is None:
        print(f"This would allow it: {options.adding(question)}")


@reporting
def run_add(arguments: argparse.Namespace) -> int:
    """Add ACLs, and print which; return 1 if the cluster refuses one."""
    from kafkalog.cli.admin.security.acls.bindings import lines
    from kafkalog.client.admin import AclPatternType, Admin

    kind = arguments.resource_pattern_type
    if kind not in (AclPatternType.LITERAL.name, AclPatternType.PREFIXED.name):
        raise UsageError(f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls.")
    wanted = options.entries_by_resource(arguments)
    if not all(wanted.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    failed = False
    with Admin(admin_config(arguments)) as admin:
        for resource, entries in wanted.items():
            print(f"Adding ACLs for resource `{resource}`: \n {lines(entries)} \n", flush=True)
            for _, error in admin.acls.try_to_create(resource.binding(entry) for entry in entries):
                if error is not None:
                    complain_of(error)
                    failed = True
    return int(failed)


@reporting
def run_remove(arguments: argparse.Namespace) -> int:
    """Remove ACLs, after a question for each resource."""
    from kafkalog.client.admin import Admin

    wanted = options.entries_by_resource(arguments)
    with Admin(admin_config(arguments)) as admin:
        _remove(admin, wanted, ask=not arguments.force)
    return 0


def _remove(admin: Admin, wanted: Mapping[Resource, Collection[Entry]], *, ask: bool) -> None:
    from kafkalog.cli.admin.security.acls.bindings import lines

    for resource, entries in wanted.items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {lines(entries)} \n from resource filter `{resource}`? (y/n)"
            )
        if ask and not _agreed(question):
            continue
        admin.acls.delete([resource.filter(entry) for entry in entries] or [resource.filter()])


def _agreed(question: str) -> bool:
    """Ask a question, and return whether the answer is yes.

    Raises:
        UsageError: Nobody answers.
    """
    print(question, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise UsageError("standard input has ended without an answer; --force asks no questions")
    return answer.strip().lower() == "y"
