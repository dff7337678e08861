"""The command-line reference, from the argument parsers of `kafkalog` and all of its commands.

It reads the parsers instead of the output of `--help`, because Python releases differ in the layout of the output.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kafkalog.cli.entry_points import find_commands
from kafkalog.cli.main import parser_for

_HEAD = """# Command line

Made by `python -m tools.reference` from the commands' own parsers; `--help` of each command says the same.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C), 143 ended by SIGTERM. A command that has others
names them.
"""


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands by name, in their order."""
    # argparse offers no public way to list what a parser has; `_actions` has been there since Python 2.7.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _summaries(parser: argparse.ArgumentParser) -> dict[str, str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {each.dest: each.help or "" for each in action._choices_actions}
    return {}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _value(action: argparse.Action) -> str:
    """Return the text for the action's value: its placeholder, its choices, or nothing for a flag."""
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices:
        value = "\\|".join(str(each) for each in action.choices)
    else:
        shown = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
        value = shown if isinstance(shown, str) else " ".join(shown)
        value = value.replace("|", "\\|")
    return {"*": f"[{value} …]", "+": f"{value} [{value} …]", "?": f"[{value}]"}.get(str(action.nargs), value)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    value = _value(action)
    if action.option_strings:
        word = ", ".join(f"`{option}{f' {value}' if value else ''}`" for option in action.option_strings[-1:])
        short = "".join(f"`{option}`, " for option in action.option_strings[:-1])
        word = short + word
    else:
        word = f"`{value}`"
    doc = (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""
    required = "required; " if action.required and action.option_strings else ""
    return f"| {word} | {required}{_cell(doc)} |"


def section(parser: argparse.ArgumentParser, summary: str, level: int) -> Iterator[str]:
    """Yield the lines of a command and of its commands."""
    yield f"{'#' * level} {parser.prog}"
    yield ""
    yield parser.description or f"{summary[:1].upper()}{summary[1:]}."
    yield ""
    listed = [
        action
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]
    if listed:
        yield "| option | meaning |"
        yield "|--|--|"
        yield from (_row(parser, action) for action in listed)
        yield ""
    below = subcommands(parser)
    if parser.epilog:
        yield "```text"
        yield parser.epilog.strip("\n")
        yield "```"
        yield ""
    summaries = _summaries(parser)
    for name, each in below.items():
        yield from section(each, summaries.get(name, ""), level + 1)


def render() -> str:
    """Return the page as Markdown."""
    lines = [_HEAD, "| command | does |", "|--|--|"]
    found = find_commands()
    lines += [f"| [`kafkalog {each.name}`](#kafkalog-{each.name}) | {_cell(each.summary)} |" for each in found]
    lines.append("")
    for each in found:
        lines += section(subcommands(parser_for(each.name))[each.name], each.summary, 2)
    return "\n".join(lines).rstrip("\n") + "\n"
