"""The parser of commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


class CommandParser(argparse.ArgumentParser):
    """Reports unknown options with the usage of the command; argparse would print the usage of `kafkalog`.

    Attributes:
        actions: Words that the command takes as options, too: `topics --create --topic words` is `topics create …`.
    """

    actions: Sequence[str] = ()

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if args and self.actions:
            args = action_first(args, self.actions)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def action_first(words: Sequence[str], actions: Sequence[str]) -> list[str]:
    """Return the words of a command with the action first, where it is written as an option (`--create`)."""
    given = [word for word in words if word.removeprefix("--") in actions and word.startswith("--")]
    if len(given) != 1 or words[0] in actions:
        return list(words)
    return [given[0].removeprefix("--"), *(word for word in words if word != given[0])]
