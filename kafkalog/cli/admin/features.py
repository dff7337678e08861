"""`kafkalog features`: describe the features of a cluster, as kafka-features.sh does."""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import add_action, admin_config, print_json, reporting

EXAMPLES = """\
examples:
  kafkalog features describe --bootstrap-server localhost:9092
  kafkalog features --bootstrap-server localhost:9092 describe

FinalizedVersionLevel is the level in use; 0 where the feature is not in use. Levels of `metadata.version` are shown as
versions of Kafka, such as 3.9-IV0.
"""
METADATA_VERSION = "metadata.version"
METADATA_VERSIONS = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0",
    "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0",
)  # fmt: skip
"""Kafka's names of the levels of `metadata.version`, from 1 on (MetadataVersion of Kafka 4.3)."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `features` and its action."""
    commands = add_command(subparsers, "features", "describe the features of a cluster", EXAMPLES)
    describe = add_action(commands, "describe", "describe the features that brokers support and use", EXAMPLES)
    describe.add_argument("--json", action="store_true", help="one object a line, with the levels as numbers")
    describe.set_defaults(run=run_describe)


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print a line for each feature that a broker supports."""
    from kafkalog.client.admin import Admin

    with Admin(admin_config(arguments)) as admin:
        found = admin.describe_features()
    for name, feature in sorted(found.features.items()):
        if arguments.json:
            print_json({"feature": name, **feature._asdict(), "epoch": found.epoch})
            continue
        lowest, highest, finalized = (level_text(name, level) for level in feature)
        print(
            f"Feature: {name}\tSupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}\t"
            f"FinalizedVersionLevel: {finalized}\tEpoch: {'-' if found.epoch is None else found.epoch}"
        )
    return 0


def level_text(feature: str, level: int) -> str:
    """Return a level as Kafka's tool shows it."""
    if feature != METADATA_VERSION:
        return str(level)
    return METADATA_VERSIONS[level - 1] if 0 < level <= len(METADATA_VERSIONS) else f"UNKNOWN {level}"
