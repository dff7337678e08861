r"""Java's regular expressions of topics (`subscribePattern`), translated to Python's `re`.

Spark's source searches for the expression anywhere in a topic's name (`findFirstIn`): `orders` also matches
`orders-eu`, and `^orders$` matches one topic. Names of topics consist of ASCII letters, digits, `.`, `_` and
`-`, so a Java character class (`\p{Lu}`) has an exact counterpart. Expressions without a counterpart are refused,
and never taken to mean something else.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

_LEGAL = string.ascii_letters + string.digits + "._-"
_CLASSES = {
    string.ascii_lowercase: ("Lower", "Ll", "javaLowerCase", "IsLowercase"),
    string.ascii_uppercase: ("Upper", "Lu", "javaUpperCase", "IsUppercase"),
    string.ascii_letters: ("Alpha", "L", "LC", "javaLetter", "IsAlphabetic", "IsL", "IsLetter", "IsLatin"),
    string.digits: ("Digit", "N", "Nd", "javaDigit", "IsDigit", "IsN", "IsNd"),
    string.ascii_letters + string.digits: ("Alnum", "javaLetterOrDigit"),
    string.hexdigits: ("XDigit", "IsHex_Digit"),
    "._-": ("Punct", "P", "IsPunctuation", "IsP"),
    ".": ("Po",),
    "_": ("Pc",),
    "-": ("Pd",),
    _LEGAL: ("ASCII", "Graph", "Print", "InBasicLatin", "InBasic_Latin"),
    " ": ("Space", "Blank", "Cntrl", "Z", "Zs", "S", "M", "C", "IsWhite_Space", "IsControl", "javaWhitespace"),
}
"""Sets of legal characters, and the Java classes that contain exactly these of them (a blank is not legal)."""
_BY_NAME = {name: members for members, names in _CLASSES.items() for name in names if members}

_FLAGS = re.compile(r"\(\?(-?[a-zA-Z]+(?:-[a-zA-Z]*)?)([:)])")
_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY = re.compile(r"\\([pP])(?:\{(?:(?:general_category|gc|block|blk|script|sc)=)?(\w+)\}|(\w))")
_BACK_REFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_ESCAPES = {"z": r"\Z", "Z": r"\Z", "h": "[ \\t]", "H": "[^ \\t]", "R": "[\\r\\n]", "e": "\\x1b"}
_REFUSED_ESCAPES = "GXNc"


class PatternError(ValueError):
    """An expression is invalid, or has no counterpart in Python; the message says what to write instead."""


def compile_java(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a name contains a match.

    Raises:
        PatternError: The text is no regular expression of Java, or it has something that is not supported.
    """
    try:
        search = re.compile(_Translation(pattern).text()).search
    except re.error as error:
        raise PatternError(f"is no regular expression: {error}") from None
    return lambda name: search(name) is not None


class _Translation:
    """Translate an expression in one pass."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []

    def text(self) -> str:
        while self._at < len(self._pattern):
            here = self._pattern[self._at]
            if here == "\\":
                self._out.append(self._escape(inside=False))
            elif here == "[":
                self._out.append(self._class())
            elif here == "(":
                self._group()
            elif here == "{" and not _QUANTIFIER.match(self._pattern, self._at):
                raise PatternError(f"is no regular expression: '{{' at position {self._at} begins no repetition")
            else:
                self._take(1)
        return "".join(self._out)

    def _take(self, count: int) -> None:
        self._out.append(self._pattern[self._at : self._at + count])
        self._at += count

    def _group(self) -> None:
        if self._pattern.startswith(("(?P", "(?#", "(?("), self._at):
            raise PatternError(f"is no regular expression of Java: '{self._pattern[self._at : self._at + 3]}'")
        if named := _NAMED.match(self._pattern, self._at):
            self._out.append(f"(?P<{named[1]}>")
            self._at = named.end()
        elif flags := _FLAGS.match(self._pattern, self._at):
            self._flags(flags[1], flags[2])
            self._at = flags.end()
        else:
            self._take(1)

    def _flags(self, letters: str, ending: str) -> None:
        unknown = sorted(set(letters) - set("imsux-"))
        if unknown:
            raise PatternError(f"has the flag '{unknown[0]}', which is not supported; i, m, s, u and x are")
        # Flag u (case beyond ASCII) makes no difference to a topic's name.
        on, _, off = letters.replace("u", "").partition("-")
        if ending == ")" and (off or self._at):
            raise PatternError(
                f"switches flags by '(?{letters})' within the expression; write '(?{letters}:…)' around that part"
            )
        if on or off:
            self._out.append(f"(?{on}{'-' + off if off else ''}{ending}")
        elif ending == ":":
            self._out.append("(?:")

    def _escape(self, inside: bool) -> str:
        """Return the counterpart of an escape; without brackets if it is `inside` a class."""
        if self._at + 1 >= len(self._pattern):
            raise PatternError("is no regular expression: it ends with a backslash")
        if (found := _PROPERTY.match(self._pattern, self._at)) is not None:
            self._at = found.end()
            return self._property(found, inside)
        if (found := _BACK_REFERENCE.match(self._pattern, self._at)) is not None:
            self._at = found.end()
            return f"(?P={found[1]})"
        letter = self._pattern[self._at + 1]
        if letter == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._pattern)
            return re.escape(quoted)
        if letter in _REFUSED_ESCAPES or self._pattern.startswith("\\x{", self._at):
            raise PatternError(f"has '\\{letter}' at position {self._at}, which is not supported")
        self._at += 2
        if letter in _ESCAPES:
            return _ESCAPES[letter].strip("[]") if inside else _ESCAPES[letter]
        return "\\" + letter

    def _property(self, found: re.Match[str], inside: bool) -> str:
        name = found[2] or found[3]
        members = _BY_NAME.get(name) or _BY_NAME.get(name.removeprefix("Is"))
        if members is None:
            raise PatternError(
                f"has the class of characters '{found[0]}', which is not supported; name the characters, as in [A-Z]"
            )
        if found[1] == "P":
            members = "".join(each for each in _LEGAL if each not in members) or " "
        text = re.escape(members)
        return text if inside else f"[{text}]"

    def _class(self) -> str:
        """Translate `[…]`. Python has no classes within classes and no intersections."""
        start = self._at
        self._at += 1
        parts = ["["]
        if self._pattern.startswith("^", self._at):
            parts.append("^")
            self._at += 1
        while self._at < len(self._pattern):
            here = self._pattern[self._at]
            if here == "]":
                self._at += 1
                return "".join([*parts, "]"])
            if here == "[" or self._pattern.startswith("&&", self._at):
                raise PatternError(
                    f"has a class of characters within another, or '&&', at position {self._at}, which is not "
                    "supported; name the characters in one class, as in [a-fx-z]"
                )
            if here == "\\":
                parts.append(self._escape(inside=True))
            else:
                parts.append(here)
                self._at += 1
        raise PatternError(f"is no regular expression: the class that begins at position {start} has no end")
