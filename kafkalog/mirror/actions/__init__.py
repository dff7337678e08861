"""`kafkalog mirror`: mirror topics between clusters, as Apache Kafka's MirrorMaker does.

There is a module for each action:

- `start`    mirror
- `status`   print how far a mirror is
- `release`  give topics up, so that the other direction may mirror them
- `legacy`   mirror with the options of MirrorMaker 1

What they share:

- `options`  the options that name a mirror, and the settings that follow from them and a file
"""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command

ACTIONS = ("start", "status", "release", "legacy")

EXAMPLES = """\
examples:
  kafkalog mirror start --source old:9092 --target new:9092 --topics 'orders|clicks.*' --source-alias old
  kafkalog mirror start --config connect-mirror-maker.properties
  kafkalog mirror legacy --consumer.config source.properties --producer.config target.properties --whitelist '.*'
  kafkalog mirror status --config connect-mirror-maker.properties
  kafkalog mirror release --config connect-mirror-maker.properties --topics orders

`kafkalog mirror ACTION --help` shows an action's options.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mirror` and its actions."""
    modules = [f"kafkalog.mirror.actions.{name}" for name in ACTIONS]
    add_command(subparsers, "mirror", "mirror topics from one cluster to another", EXAMPLES, modules=modules)
