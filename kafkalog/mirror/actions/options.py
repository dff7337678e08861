"""The options that name a mirror, and its settings from them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import complain, file_properties

if TYPE_CHECKING:
    from kafkalog.mirror.settings import MirrorSettings

DEFAULT_ALIASES = ("source", "target")


def add_clusters(parser: argparse.ArgumentParser) -> None:
    """Add the options that name both clusters, and the file."""
    parser.add_argument("--source", metavar="HOST:PORT[,…]", help="brokers of the cluster to mirror from")
    parser.add_argument("--target", metavar="HOST:PORT[,…]", help="brokers of the cluster to mirror to")
    parser.add_argument("--source-alias", metavar="NAME", help="the source's name in those of topics (default: source)")
    parser.add_argument("--target-alias", metavar="NAME", help="the target's name (default: target)")
    parser.add_argument("--source-config", metavar="FILE", help="a file of client properties for the source")
    parser.add_argument("--target-config", metavar="FILE", help="a file of client properties for the target")
    parser.add_argument("--config", metavar="FILE", help="the mirror's properties; a file of MirrorMaker 2 will do")
    parser.add_argument(
        "--offsets",
        choices=("translate", "keep"),
        help="translate: records get new offsets, each once by transactions (the default); keep: those of the source",
    )
    parser.add_argument("--naming", choices=("default", "identity"), help="default: SOURCE.topic; identity: same names")


def settings_of(arguments: argparse.Namespace, more: dict[str, str | None]) -> MirrorSettings:
    """Make the settings of the options; `more` are properties that other options set, over those of the file.

    Raises:
        UsageError: A file cannot be read.
        ConfigError: A property cannot have its value.
    """
    from kafkalog.client.properties.foreign import warn_about
    from kafkalog.mirror.clients import unknown_to_all
    from kafkalog.mirror.settings import MirrorSettings, aliases_of

    properties = file_properties(arguments.config)
    named = (arguments.source_alias, arguments.target_alias)
    from_file = aliases_of(properties) if None in named else None
    source, target = (given or default for given, default in zip(named, from_file or DEFAULT_ALIASES, strict=True))
    said = {**more, "replication.policy.class": arguments.naming, "replication.offsets": arguments.offsets}
    for key, text in said.items():
        if text is None:
            continue
        # An option goes before all that the file says, also for this mirror alone.
        properties[f"{source}->{target}.{key}"] = text
    clients = file_properties(arguments.source_config), file_properties(arguments.target_config)
    for client, given in zip(clients, (arguments.source, arguments.target), strict=True):
        if given is not None:
            client["bootstrap.servers"] = given
    settings, unknown = MirrorSettings.of(properties, source, target, clients)
    if unknown:
        complain(f"without effect in {arguments.config}: {', '.join(unknown)}")
    warn_about(unknown_to_all((settings.source_client, settings.target_client)))
    return settings
