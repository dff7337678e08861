"""`kafkalog features`: describe and change the features of a cluster, as kafka-features.sh does."""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    Run,
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    complain,
    print_json,
    reporting,
)
from kafkalog.java_numbers import parse_integer

EXAMPLES = """\
examples:
  kafkalog features describe --bootstrap-server localhost:9092
  kafkalog features --bootstrap-server localhost:9092 describe
  kafkalog features upgrade --bootstrap-server localhost:9092 --metadata 3.9 --dry-run
  kafkalog features downgrade --bootstrap-server localhost:9092 --feature metadata.version=20
  kafkalog features disable --bootstrap-server localhost:9092 --feature group.version

FinalizedVersionLevel is the level in use; 0 where the feature is not in use. Levels of `metadata.version` are shown as
versions of Kafka, such as 3.9-IV0. Features change in clusters of Apache Kafka over KRaft.
Exit code 1: a feature was not changed.
"""
METADATA_VERSION = "metadata.version"
METADATA_VERSIONS = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0",
    "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0",
)  # fmt: skip
"""Kafka's names of the levels of `metadata.version`, from 1 on (MetadataVersion of Kafka 4.3)."""


_SHORT = 1 << 15


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `features` and its actions."""
    commands = add_command(subparsers, "features", "describe and change the features of a cluster", EXAMPLES)
    describe = add_action(commands, "describe", "describe the features that brokers support and use", EXAMPLES)
    describe.add_argument("--json", action="store_true", help="one object a line, with the levels as numbers")
    describe.set_defaults(run=run_describe)
    _add_change(commands, "upgrade", "raise the levels of features", run_upgrade)
    _add_change(commands, "downgrade", "lower the levels of features", run_downgrade)
    _add_change(commands, "disable", "take features out of use", run_disable)


def _add_change(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, run: Run
) -> None:
    parser = add_action(commands, name, purpose, EXAMPLES)
    if name == "disable":
        add_repeated(parser, "--feature", metavar="FEATURE", purpose="a feature that is no longer used")
    else:
        version = "a version of Kafka whose level metadata.version gets, such as 3.9-IV0"
        parser.add_argument("--metadata", metavar="VERSION", help=version)
        add_repeated(parser, "--feature", metavar="FEATURE=LEVEL", purpose="a feature and its new level")
    if name != "upgrade":
        parser.add_argument("--unsafe", action="store_true", help="also if metadata may be lost for good")
    parser.add_argument("--dry-run", action="store_true", help="only check whether it can be done")
    parser.set_defaults(run=run)


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


@reporting
def run_upgrade(arguments: argparse.Namespace) -> int:
    """Raise levels, and print a line for each feature."""
    return _change(arguments, "upgrade", _levels(arguments), "UPGRADE")


@reporting
def run_downgrade(arguments: argparse.Namespace) -> int:
    """Lower levels, and print a line for each feature."""
    return _change(arguments, "downgrade", _levels(arguments), _downgrade(arguments))


@reporting
def run_disable(arguments: argparse.Namespace) -> int:
    """Take features out of use, and print a line for each."""
    return _change(arguments, "disable", _once([(name, 0) for name in arguments.feature]), _downgrade(arguments))


def _downgrade(arguments: argparse.Namespace) -> str:
    return "UNSAFE_DOWNGRADE" if arguments.unsafe else "SAFE_DOWNGRADE"


def _levels(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the levels that the options name.

    Raises:
        UsageError: A level cannot be read, or a feature is named twice.
    """
    found = []
    if arguments.metadata is not None:
        found.append((METADATA_VERSION, level_of(arguments.metadata)))
    for text in arguments.feature:
        name, equals, number = (part.strip() for part in text.partition("="))
        level = parse_integer(number)
        if not (name and equals) or level is None or not -_SHORT <= level < _SHORT:
            raise UsageError(f"--feature {text}: expected FEATURE=LEVEL, with a number up to {_SHORT - 1}")
        found.append((name, level))
    return _once(found)


def _once(found: list[tuple[str, int]]) -> dict[str, int]:
    """Return the levels by feature.

    Raises:
        UsageError: A feature is named twice, or no feature is named.
    """
    levels = dict(found)
    if not levels:
        raise UsageError("name at least one feature with --feature")
    if len(levels) < len(found):
        twice = next(name for name in levels if sum(name == other for other, _ in found) > 1)
        raise UsageError(f"--feature: {twice} was specified more than once")
    return levels


def _change(arguments: argparse.Namespace, verb: str, levels: dict[str, int], kind: str) -> int:
    """Change levels, and print the lines of Kafka's tool; return 1 if a feature was not changed.

    `kind` is the name of an `UpgradeType`.
    """
    from kafkalog.client.admin import Admin
    from kafkalog.client.admin.features import FeatureUpdate, UpgradeType

    updates = {name: FeatureUpdate(level, UpgradeType[kind]) for name, level in levels.items()}
    with Admin(admin_config(arguments)) as admin:
        outcomes = admin.update_features(updates, validate_only=arguments.dry_run)
    for name, error in sorted(outcomes.items()):
        to = "" if verb == "disable" else f" to {levels[name]}"
        if error is None:
            print(f"{name} {'can be' if arguments.dry_run else 'was'} {verb.removesuffix('e')}ed{to}.")
        else:
            print(f"{'Can not' if arguments.dry_run else 'Could not'} {verb} {name}{to}. {error.message}")
    failed = sum(error is not None for error in outcomes.values())
    if failed:
        complain(f"{failed} out of {len(updates)} operation(s) failed.")
    return int(failed > 0)


def level_of(version: str) -> int:
    """Return the level of `metadata.version` that a version of Kafka has; a release has the level of its last version.

    Raises:
        UsageError: There is no such version.
    """
    # As in Kafka, 3.9.1 is taken for 3.9.
    name = ".".join(version.split(".")[:2])
    levels = [level for level, known in enumerate(METADATA_VERSIONS, 1) if name in (known, known.partition("-")[0])]
    if not levels:
        raise UsageError(f"--metadata {version}: expected one of {', '.join(METADATA_VERSIONS)}")
    return levels[-1]


def level_text(feature: str, level: int) -> str:
    """Return a level as Kafka's tool shows it."""
    if feature != METADATA_VERSION:
        return str(level)
    return METADATA_VERSIONS[level - 1] if 0 < level <= len(METADATA_VERSIONS) else f"UNKNOWN {level}"
