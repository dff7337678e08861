"""Names of Kerberos, `alice@REALM` or `alice/host@REALM`, and the users that they stand for.

`sasl.kerberos.principal.to.local.rules` has rules of which the first that fits decides:

    DEFAULT                                      the first part, of names of the default realm
    RULE:[n:format](expression)s/from/to/g/L     names with n parts: $0 is the realm, $1 and $2 are the parts

The format makes a text of the name. The expression has to be true of all of it. `from` is replaced in it, everywhere
with `g`; `/L` and `/U` make lower and upper case. All but `[n:format]` may be left out. A user with `/` or `@` is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.config.definition import shown
from kafkalog.java_regex import compile_java

_NAME = re.compile(r"(?P<service>[^/@]+)(?:/(?P<host>[^/@]+))?(?:@(?P<realm>[^/@]+))?")
_RULE = re.compile(
    r"RULE:\[(?P<count>[0-9]):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<before>[^/]*)/(?P<after>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_NOT_SIMPLE = re.compile("[/@]")


class RulesError(ValueError):
    """Rules that cannot be read; the text says which one."""


class NoUserError(ValueError):
    """A name that stands for no user; the text says why."""


class KerberosName(NamedTuple):
    """A name, by its parts."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Parse a name.

        Raises:
            NoUserError: it has another form.
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise NoUserError(f"{shown(text)} is no name of Kerberos")
        return cls(match["service"], match["host"], match["realm"])

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts without the realm."""
        return (self.service,) if self.host is None else (self.service, self.host)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, but DEFAULT."""

    count: int
    format: str
    match: re.Pattern[str] | None
    before: re.Pattern[str] | None
    after: str
    replaces_all: bool
    case: str

    def apply(self, name: KerberosName) -> str | None:
        """Return the user, or None if the rule says nothing of the name."""
        if len(name.parts) != self.count:
            return None
        values = (name.realm or "", *name.parts)
        text = re.sub(r"\$([0-9]+)", lambda found: values[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(text) is None:
            return None
        if self.before is not None:
            text = self.before.sub(self.after, text, count=0 if self.replaces_all else 1)
        return text


class NameRules:
    """The rules of a broker.

    Args:
        rules: the rules, in their order.
        default_realm: the realm of the broker.

    Raises:
        RulesError: one of them cannot be read.
    """

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._default_realm = default_realm
        self._rules = [None if rule == "DEFAULT" else _rule(rule) for rule in rules]
        """The rules; None stands for DEFAULT."""

    def user_of(self, text: str) -> str:
        """Return the user that a name stands for.

        Raises:
            NoUserError: it stands for none.
        """
        name = KerberosName.parse(text)
        if name.realm is None and name.host is None:
            return name.service
        for rule in self._rules:
            if rule is None:
                found = name.service if name.realm == self._default_realm else None
            else:
                found = rule.apply(name)
            if found is None:
                continue
            if not found or _NOT_SIMPLE.search(found):
                raise NoUserError(f"a rule makes {shown(found)!r} of {shown(text)}, which is no user")
            case = "" if rule is None else rule.case
            return found.lower() if case == "L" else found.upper() if case == "U" else found
        raise NoUserError(f"no rule of sasl.kerberos.principal.to.local.rules is for {shown(text)}")


def _rule(text: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise RulesError(f"{shown(text)} is no rule: write DEFAULT, or RULE:[1:$1@$0](.*@REALM)s/@.*//")
    count = int(match["count"])
    numbers = [int(number) for number in re.findall(r"\$([0-9]+)", match["format"])]
    if any(number > count for number in numbers):
        raise RulesError(f"{shown(text)} refers to a part that names with {count} parts do not have")
    try:
        expression = None if match["match"] is None else compile_java(match["match"])
        before = None if match["before"] is None else compile_java(match["before"])
    except ValueError as error:
        raise RulesError(f"{shown(text)}: {error}") from error
    after = _replacement(text, match["after"] or "", 0 if before is None else before.groups)
    return Rule(count, match["format"], expression, before, after, match["all"] is not None, match["case"] or "")


def _replacement(rule: str, text: str, groups: int) -> str:
    """Return Java's replacement in the form of Python's."""
    found, at = [], 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            found.append(text[at].replace("\\", r"\\"))
        elif char == "$":
            at += 1
            digit = text[at : at + 1]
            if not (digit.isascii() and digit.isdecimal()) or int(digit) > groups:
                raise RulesError(f"{shown(rule)} refers to a group that its expression does not have")
            found.append(rf"\g<{digit}>")
        else:
            found.append(char.replace("\\", r"\\"))
        at += 1
    return "".join(found)
