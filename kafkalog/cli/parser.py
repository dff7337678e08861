"""The parser of commands."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

GENERAL = ("--bootstrap-server", "--command-config", "--timeout")
"""Options of all actions of a command, each with a value, that may stand before the action."""


class CommandParser(argparse.ArgumentParser):
    """Reports unknown options with the usage of the command; argparse would print the usage of `kafkalog`.

    Attributes:
        actions: The actions of a command that has some. As with Kafka's tools they may also be options
            (`topics --create --topic words`), and may stand after `GENERAL` options.
    """

    actions: Collection[str] = ()

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if args and self.actions:
            args = action_first(args, self.actions)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def action_first(words: Sequence[str], actions: Collection[str]) -> list[str]:
    """Return the words of a command with the action first, where it is an option (`--create`) or after options."""
    given = [word for word in words if word.removeprefix("--") in actions and word.startswith("--")]
    if len(given) == 1 and words[0] not in actions:
        return [given[0].removeprefix("--"), *(word for word in words if word != given[0])]
    at = 0
    while at < len(words) and words[at].partition("=")[0] in GENERAL:
        at += 1 if "=" in words[at] else 2
    if at >= len(words) or words[at].startswith("-"):
        return list(words)
    return [words[at], *words[:at], *words[at + 1 :]]
