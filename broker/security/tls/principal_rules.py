"""`ssl.principal.mapping.rules`: which user the owner of a client's certificate is.

The rules are `RULE:expression/replacement/`, with `L` or `U` at the end for lower or upper case, and `DEFAULT`, which
takes the name as it is. The first one whose expression is true of the whole name decides. Expressions and replacements
are Java's, as far as RE2 has the same: neither look around, nor refer to groups before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import re2

from broker.config.definition import shown

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSE = re.compile(_RULE)
_DIGITS = frozenset("0123456789")
_NAME = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}


class RulesError(ValueError):
    """Rules that cannot be read; the text says which part, and what is expected."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    expression: re2._Regexp[str] | None = None
    """The expression that must be true of the whole name; None takes every name as it is."""
    parts: tuple[str | int, ...] = ()
    """The replacement of each place where the expression is true: text, and groups by their numbers."""
    case: str = ""
    """L for lower case, U for upper case, or nothing."""

    def apply(self, name: str) -> str | None:
        """Return the user of the owner of this name, or None if the rule says nothing of it."""
        if self.expression is None:
            return name
        if self.expression.fullmatch(name) is None:
            return None
        found, at = [], 0
        for match in self.expression.finditer(name):
            found.append(name[at : match.start()])
            found += [part if isinstance(part, str) else match.group(part) or "" for part in self.parts]
            at = match.end()
        return _CASES[self.case]("".join(found) + name[at:])


class PrincipalRules:
    """The rules of one listener.

    Args:
        text: the value of `ssl.principal.mapping.rules`.

    Raises:
        RulesError: it cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.rules = tuple(_rules(text))

    def user_of(self, name: str) -> str | None:
        """Return the user that the owner of a certificate is, or None if no rule says anything of this name."""
        return next((user for rule in self.rules if (user := rule.apply(name)) is not None), None)


def _rules(text: str) -> list[Rule]:
    found = []
    for match in _SPLIT.finditer(text.strip()):
        rule = match[1]
        parsed = _PARSE.match(rule)
        if parsed is None or parsed.end() != len(rule):
            after = rule if parsed is None else rule[parsed.end() :]
            raise RulesError(f"{shown(after)} cannot be read; a rule is DEFAULT or RULE:expression/replacement/[L|U]")
        if parsed[1] is not None:
            found.append(Rule())
        elif parsed[2] is not None:
            expression = _compiled(parsed[2])
            found.append(Rule(expression, tuple(_parts(parsed[3], expression)), parsed[4]))
    return found


def _compiled(expression: str) -> re2._Regexp[str]:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise RulesError(f"the expression {shown(expression)} cannot be read: {why}") from None


def _parts(text: str, expression: re2._Regexp[str]) -> list[str | int]:
    """Return the parts of a replacement of Java's."""
    found: list[str | int] = []
    at, count = 0, expression.groups
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\" and at < len(text):
            found.append(text[at])
            at += 1
        elif character == "$":
            group, at = _group(text, at, count, expression)
            found.append(group)
        else:
            found.append(character)
    return found


def _group(text: str, at: int, count: int, expression: re2._Regexp[str]) -> tuple[str | int, int]:
    """Return the group that `$` before `at` stands for, or the text that it is, and where the text goes on."""
    named = _NAME.match(text, at)
    if named is not None and named[1] in expression.groupindex:
        return expression.groupindex[named[1]], named.end()
    if at == len(text) or text[at] not in _DIGITS:
        raise RulesError(f"$ in the replacement {shown(text)} stands for no group; write \\$ for the character")
    number = int(text[at])
    if number > count:
        if not count:
            raise RulesError(f"${number} in the replacement {shown(text)} stands for a group, and there is none")
        # As in Kafka, a number that is too large is text.
        return "$", at
    at += 1
    while at < len(text) and text[at] in _DIGITS and number * 10 + int(text[at]) <= count:
        number = number * 10 + int(text[at])
        at += 1
    return number, at
