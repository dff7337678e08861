"""`kafkalog configs`: describe and alter configurations, as kafka-configs.sh does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog.cli.admin import quotas
from kafkalog.cli.admin.groups.common import Selected, list_each
from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    complain_of,
    print_json,
    reporting,
)

if TYPE_CHECKING:
    from kafkalog.client.admin import Admin, ConfigEntry, ConfigResource, ConfigSource, ResourceType
    from kafkalog.client.config import ClientConfig

EXAMPLES = """\
examples:
  kafkalog configs describe --bootstrap-server localhost:9092 --topic words
  kafkalog configs describe --bootstrap-server localhost:9092 --entity-type brokers --entity-name 0 --all
  kafkalog configs alter --bootstrap-server localhost:9092 --topic words --add-config retention.ms=86400000
  kafkalog configs alter --bootstrap-server localhost:9092 --topic words --add-config 'cleanup.policy=[compact,delete]'
  kafkalog configs alter --bootstrap-server localhost:9092 --broker-defaults --delete-config log.retention.ms
  kafkalog configs alter --bootstrap-server localhost:9092 --client loader --add-config producer_byte_rate=10485760
  kafkalog configs describe --bootstrap-server localhost:9092 --entity-type users --entity-type clients
  kafkalog configs alter --bootstrap-server localhost:9092 --user ann --add-config 'SCRAM-SHA-512=[password=…]'

Without --all only what was set by such a command is shown, and not what comes from server.properties or is the default.
"""
SHORT = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "group": "groups",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
"""Options that give type and name in one, and their type."""
DEFAULTS = {"broker_defaults": "brokers", "user_defaults": "users", "client_defaults": "clients", "ip_defaults": "ips"}
"""Options that name the default of a type, and their type."""
DEFAULT = object()
"""The name that stands for the default of a type."""
OF_BROKERS = ("brokers", "broker-loggers")
SOURCES = {
    "TOPIC": "DYNAMIC_TOPIC_CONFIG",
    "BROKER": "DYNAMIC_BROKER_CONFIG",
    "ALL_BROKERS": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC": "STATIC_BROKER_CONFIG",
    "DEFAULT": "DEFAULT_CONFIG",
    "LOGGER": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "CLIENT_METRICS": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "GROUP": "DYNAMIC_GROUP_CONFIG",
}
"""Kafka's names of the sources of a value."""
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_KEY = re.compile(r"[a-zA-Z0-9._-]+")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `configs` and its commands."""
    commands = add_command(
        subparsers,
        "configs",
        "describe and alter the configurations of topics, brokers and groups, quotas of clients, and users of SCRAM",
        EXAMPLES,
    )
    describe = _add(commands, "describe", "show configurations")
    describe.add_argument("--all", action="store_true", help="also values that no command has set")
    describe.add_argument("--json", action="store_true", help="one object a line for each configuration")
    describe.set_defaults(run=run_describe)
    alter = _add(commands, "alter", "change configurations")
    alter.add_argument(
        "--add-config", metavar="K=V,…", help="set these; write a value with commas in brackets: k=[a,b]"
    )
    alter.add_argument("--add-config-file", metavar="FILE", help="set the properties of a file")
    alter.add_argument("--delete-config", metavar="K,…", help="reset these to the default")
    alter.set_defaults(run=run_alter)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    parser = add_action(commands, name, purpose, EXAMPLES)
    parser.add_argument(
        "--entity-type",
        action="append",
        default=[],
        choices=tuple(SHORT.values()),
        help="the type of the entity; users and clients may be combined",
    )
    names = "its name: a topic, a broker's id, a group, a user, a client id, an address"
    add_repeated(parser, "--entity-name", metavar="NAME", purpose=names)
    parser.add_argument(
        "--entity-default",
        action="append_const",
        dest="entity_name",
        const=DEFAULT,
        help="the default of all brokers, users, clients or ips",
    )
    parser.add_argument("--topic", metavar="TOPIC", help="short for --entity-type topics --entity-name TOPIC")
    parser.add_argument("--broker", metavar="ID", help="short for --entity-type brokers --entity-name ID")
    parser.add_argument("--broker-defaults", action="store_true", help="for --entity-type brokers --entity-default")
    parser.add_argument("--broker-logger", metavar="ID", help="short for --entity-type broker-loggers --entity-name ID")
    parser.add_argument("--group", metavar="GROUP", help="short for --entity-type groups --entity-name GROUP")
    for name, kind in (("user", "users"), ("client", "clients"), ("ip", "ips")):
        upper = name.upper()
        parser.add_argument(
            f"--{name}", metavar=upper, help=f"short for --entity-type {kind} --entity-name {upper}: its quotas"
        )
        parser.add_argument(
            f"--{name}-defaults", action="store_true", help=f"for --entity-type {kind} --entity-default"
        )
    return parser


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print the configurations of the named entities; without a name, those of all entities of the type.

    If an entity cannot be read, print its error, go on with the others, and return 1.
    """
    from kafkalog.client.admin import Admin, ConfigResource
    from kafkalog.client.admin.configs import RESOURCES_AT_ONCE

    config = admin_config(arguments)
    entities = _entities(arguments)
    kind, name = entities[0]
    # Each broker is asked on its own. If one does not answer, those before it have been printed by then.
    step = 1 if kind in OF_BROKERS else RESOURCES_AT_ONCE
    if kind in quotas.TYPES:
        quotas.describe(config, entities, as_json=arguments.json)
        return 0
    with Admin(config) as admin:
        names, is_whole = Selected([name]) if name is not None else _all_of(admin, config, kind)
        failed = not is_whole
        for start in range(0, len(names), step):
            resources = [ConfigResource(_type(kind), each) for each in names[start : start + step]]
            for resource, found in admin.describe_configs_each(resources, synonyms=True).items():
                if isinstance(found, Exception):
                    complain_of(found)
                    failed = True
                else:
                    _show(arguments, kind, resource, found)
    return int(failed)


def _show(arguments: argparse.Namespace, kind: str, resource: ConfigResource, entries: dict[str, ConfigEntry]) -> None:
    shown = [entry for _, entry in sorted(entries.items()) if arguments.all or entry.source is _dynamic(resource)]
    if arguments.json:
        for entry in shown:
            print_json({"entity_type": kind, "entity_name": resource.name, **_row(entry)})
        return
    for line in _lines(kind, resource.name, shown, everything=arguments.all):
        print(line)


@reporting
def run_alter(arguments: argparse.Namespace) -> int:
    """Set and delete configurations of one entity."""
    config = admin_config(arguments)
    entities = _entities(arguments)
    for kind, name in entities:
        if name is None:
            raise UsageError(f"an entity name must be specified with alter of {kind}")
    kind, name = entities[0]
    if arguments.add_config and arguments.add_config_file:
        raise UsageError("only one of --add-config and --add-config-file may be given")
    added = (
        _properties(arguments.add_config_file)
        if arguments.add_config_file
        else parse_configs(arguments.add_config or "")
    )
    deleted = [key.strip() for key in (arguments.delete_config or "").split(",") if key.strip()]
    if not added and not deleted:
        raise UsageError("nothing to alter: give --add-config, --add-config-file or --delete-config")
    if kind in quotas.TYPES:
        quotas.alter(config, entities, added, deleted)
    else:
        _alter_resource(config, kind, name or "", added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")
    return 0


def _alter_resource(config: ClientConfig, kind: str, name: str, added: dict[str, str], deleted: list[str]) -> None:
    from kafkalog.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource
    from kafkalog.protocol.errors import InvalidConfigError, UnsupportedVersionError

    resource = ConfigResource(_type(kind), name)
    changes = [ConfigChange(key, value) for key, value in added.items()]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in deleted]
    with Admin(config) as admin:
        (now,) = admin.describe_configs([resource]).values()
        unset = [key for key in deleted if key not in now or now[key].source is not _dynamic(resource)]
        if unset:
            raise InvalidConfigError(f"Invalid config(s): {','.join(unset)}")
        try:
            admin.incremental_alter_configs({resource: changes})
        except UnsupportedVersionError:
            # An older broker. To replace a topic's configurations is not safe, and Kafka's command does it for brokers
            # only (`ConfigCommand.alterConfig`).
            if kind != "brokers":
                raise
            admin.alter_configs({resource: _all_dynamic(resource, now, added, deleted)})


def _all_dynamic(
    resource: ConfigResource, now: dict[str, ConfigEntry], added: dict[str, str], deleted: list[str]
) -> dict[str, str]:
    """Return all dynamic configurations of a broker after the changes.

    Raises:
        InvalidConfigError: A present value is secret, so that it cannot be sent again.
    """
    from kafkalog.protocol.errors import InvalidConfigError
    from kafkalog.protocol.wire.releases import SINGLE_CONFIGS

    present = {name: entry.value for name, entry in now.items() if entry.source is _dynamic(resource)}
    wanted = {name: value for name, value in {**present, **added}.items() if name not in deleted}
    secret = sorted(name for name, value in wanted.items() if value is None)
    if secret:
        raise InvalidConfigError(
            f"{SINGLE_CONFIGS.older} take all of their dynamic configurations at once, and keep the values of secret "
            f"ones to themselves: set {', '.join(secret)} in the same command"
        )
    return {name: value for name, value in wanted.items() if value is not None}


def parse_configs(text: str) -> dict[str, str]:
    """Parse the properties of `k=v,k=[a,b]`.

    Raises:
        UsageError: A property is not of the form `k=v`, or its key has a character that keys cannot have. The text does
            not show it.
    """
    found = {}
    pairs = re.split("," + _OUTSIDE_BRACKETS, text)
    while pairs and not pairs[-1]:
        # Commas at the end: Java's `split` leaves out what is empty there.
        pairs.pop()
    for number, pair in enumerate(pairs, 1):
        words = re.split("=" + _OUTSIDE_BRACKETS, pair)
        # The pair may be a password, or a part of one. A message says only where it is.
        where = f"--add-config, pair {number} of {len(pairs)}"
        if len(words) != 2:
            raise UsageError(
                f'{where}: all configs to be added must be in the format "key=val"; brackets enclose a value with '
                "commas or equals signs"
            )
        key, value = words[0].strip(), re.sub(r"[\[\]]", "", words[1]).strip()
        if not _KEY.fullmatch(key):
            raise UsageError(f"{where}: invalid character found for config key")
        found[key] = value
    return found


def _properties(file: str) -> dict[str, str]:
    from kafkalog.java_properties import PropertiesError, load_properties

    try:
        return dict(load_properties(Path(file)))
    except PropertiesError as error:
        raise UsageError(str(error)) from error


def _entities(arguments: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Parse the entity types and names of the options.

    The name `""` is the default of the type, None means all of the type. There is one pair, or a user and a client
    id.
    """
    named: list[tuple[str, object]] = [
        (kind, getattr(arguments, option)) for option, kind in SHORT.items() if getattr(arguments, option) is not None
    ]
    named += [(kind, DEFAULT) for option, kind in DEFAULTS.items() if getattr(arguments, option)]
    types, names = arguments.entity_type, arguments.entity_name
    if named and (types or names):
        raise UsageError("entities can be named by --entity-type and --entity-name, or by short options, not by both")
    if len(names) > len(types):
        raise UsageError("more entity names are specified than entity types: --entity-type comes first")
    found = named or list(zip_longest(types, names))
    if not found:
        raise UsageError("at least one entity type must be specified: --entity-type, or --topic, --broker, --group, …")
    kinds = [kind for kind, _ in found]
    if len(found) > 1 and sorted(kinds) != ["clients", "users"]:
        raise UsageError("name only one entity, or a user and a client id")
    return [(kind, _checked_name(kind, name)) for kind, name in found]


def _checked_name(kind: str, name: object) -> str | None:
    if name is DEFAULT:
        if kind not in DEFAULTS.values():
            raise UsageError(f"{kind} have no default: --entity-default is for {', '.join(DEFAULTS.values())}")
        return ""
    text = None if name is None else str(name)
    if kind in OF_BROKERS and text and not text.isdecimal():
        raise UsageError(f"the entity name for {kind} must be a valid integer broker id, but it is: {text}")
    if text == "":
        raise UsageError(f"the entity name for {kind} must not be empty")
    return text


def _type(kind: str) -> ResourceType:
    from kafkalog.client.admin import ResourceType

    return ResourceType[kind[:-1].upper().replace("-", "_")]


def _dynamic(resource: ConfigResource) -> ConfigSource:
    """Return the source of values that a command has set for this resource."""
    from kafkalog.client.admin import ConfigSource, ResourceType

    if resource.type is ResourceType.BROKER and not resource.name:
        return ConfigSource.ALL_BROKERS
    if resource.type is ResourceType.BROKER_LOGGER:
        return ConfigSource.LOGGER
    return ConfigSource[resource.type.name]


def _all_of(admin: Admin, config: ClientConfig, kind: str) -> Selected:
    from kafkalog.client.admin.groups.group_admin import GroupAdmin

    if kind == "topics":
        return Selected(admin.list_topics(internal=True))
    if kind == "groups":
        with GroupAdmin(config, cluster=admin.cluster) as groups:
            listed = list_each(groups)
        listed.complain()
        return Selected([each.group for each in listed.groups], not listed.errors)
    ids = [str(node_id) for node_id in sorted(admin.describe_cluster().brokers)]
    return Selected([*ids, ""] if kind == "brokers" else ids)


def _lines(kind: str, name: str, entries: list[ConfigEntry], *, everything: bool) -> Iterator[str]:
    if name:
        yield f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {name} are:"
    else:
        yield f"Default configs for {kind} in the cluster are:"
    for entry in entries:
        synonyms = ", ".join(
            f"{SOURCES.get(each.source.name, 'UNKNOWN')}:{each.name}={_value(each.value)}" for each in entry.synonyms
        )
        sensitive = str(entry.sensitive).lower()
        yield f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _row(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": SOURCES.get(entry.source.name, "UNKNOWN"),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": SOURCES.get(each.source.name, "UNKNOWN")}
            for each in entry.synonyms
        ],
    }
