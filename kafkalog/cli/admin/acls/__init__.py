"""`kafkalog acls`: list, add and remove access control lists, as kafka-acls.sh does.

- `options`   the options, and the resources and entries that they name
- `bindings`  their text, in the form of Kafka's tool
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kafkalog.cli.admin.acls import options
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
    from kafkalog.cli.admin.acls.bindings import Entry, Resource
    from kafkalog.client.admin import AclBinding, Admin

EXAMPLES = """\
examples:
  kafkalog acls list --bootstrap-server localhost:9092
  kafkalog acls list --bootstrap-server localhost:9092 --topic words --resource-pattern-type match
  kafkalog acls add --bootstrap-server localhost:9092 --allow-principal User:ann --producer --topic words
  kafkalog acls add --bootstrap-server localhost:9092 --allow-principal User:ann --consumer --topic words --group count
  kafkalog acls add --bootstrap-server localhost:9092 --deny-principal User:eve --operation All --topic '*'
  kafkalog acls remove --bootstrap-server localhost:9092 --topic words --force
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `acls` and its actions."""
    commands = add_command(subparsers, "acls", "list, add and remove access control lists", EXAMPLES)
    listing = _add(commands, "list", "list the ACLs of resources; without any, all ACLs")
    add_repeated(listing, "--principal", metavar="TYPE:NAME", purpose="only its ACLs")
    listing.add_argument("--json", action="store_true", help="one object a line for each ACL")
    listing.set_defaults(run=run_list)
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
    from kafkalog.cli.admin.acls.bindings import shown
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
def run_add(arguments: argparse.Namespace) -> int:
    """Add ACLs, and print which; return 1 if the cluster refuses one."""
    from kafkalog.cli.admin.acls.bindings import lines
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
    from kafkalog.cli.admin.acls.bindings import lines

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
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"
