"""RE2's syntax over the characters of topic names: from the text of an expression to its tree."""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

MAX_REPEAT = 1_000
MAX_DEPTH = 100

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
_DIGITS = frozenset(string.digits)
WORD = frozenset(string.ascii_letters + string.digits + "_")
_PERL = {"d": _DIGITS, "w": WORD, "s": frozenset[str]()}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": frozenset[str](),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_LETTERS_OF_SCRIPT = {"Latin": frozenset(string.ascii_letters), "Common": ALPHABET - frozenset(string.ascii_letters)}


class Char(NamedTuple):
    """One character of these."""

    of: frozenset[str]


class Assertion(NamedTuple):
    """A place: ``^``, ``$``, ``b`` at and ``B`` not at the edge of a word."""

    kind: str


class Sequence(NamedTuple):
    parts: list[Node]


class Choice(NamedTuple):
    parts: list[Node]


class Repeat(NamedTuple):
    """``most`` None for as often as you like."""

    part: Node
    least: int
    most: int | None


Node: TypeAlias = Char | Assertion | Sequence | Choice | Repeat


class RegexSyntaxError(Exception):
    """What is wrong, in RE2's words."""


@dataclass(slots=True)
class _Flags:
    fold_case: bool = False


class Parser:
    """Recursive descent over RE2's syntax."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()

    def parse(self) -> Node:
        node = self._choice(_Flags())
        if self._at < len(self._text):
            raise RegexSyntaxError(f"unexpected ): `{self._text}`")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False

    def _choice(self, flags: _Flags) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RegexSyntaxError("expression nests too deeply")
        parts = [self._sequence(flags)]
        while self._take("|"):
            parts.append(self._sequence(flags))
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _sequence(self, flags: _Flags) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._peek() not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at : end if end >= 0 else len(self._text)]
                parts += [_literal(char, flags) for char in quoted]
                self._at = end + 2 if end >= 0 else len(self._text)
                if quoted:
                    parts[-1] = self._repeated(parts[-1])
                continue
            node = self._atom(flags)
            if node is not None:
                parts.append(self._repeated(node))
        return Sequence(parts)

    def _atom(self, flags: _Flags) -> Node | None:
        start = self._at
        char = self._text[start]
        self._at += 1
        if char == "(":
            return self._group(flags)
        if char == "[":
            return Char(self._class(flags))
        if char == ".":
            return Char(ALPHABET)
        if char in "^$":
            return Assertion(char)
        if char == "\\":
            return self._escape(flags)
        if char in "*+?":
            raise RegexSyntaxError(f"missing argument to repetition operator: `{char}`")
        return _literal(char, flags)

    def _repeated(self, node: Node) -> Node:
        operators = 0
        while True:
            start = self._at
            bounds = self._bounds()
            if bounds is None:
                return node
            operators += 1
            lazy = self._take("?")
            if operators > 1:
                raise RegexSyntaxError(f"invalid nested repetition operator: `{self._text[start - 1 : self._at]}`")
            del lazy  # What a whole name matches does not depend on who takes more.
            node = Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_number(least) or (most and not _is_number(most)):
            # Not a repetition: RE2 takes the brace for itself.
            return None
        first, last = int(least), int(most) if most else None if comma else int(least)
        if first > MAX_REPEAT or (last is not None and (last > MAX_REPEAT or last < first)):
            raise RegexSyntaxError(f"invalid repeat count: `{self._text[self._at : end + 1]}`")
        self._at = end + 1
        return first, last

    def _group(self, flags: _Flags) -> Node | None:
        inner = _Flags(flags.fold_case)
        if self._take("?"):
            if self._take("P<") or (self._text[self._at + 1 : self._at + 2] not in "=!" and self._take("<")):
                self._name()
            elif self._set_flags(inner):
                # (?i) is for the rest of the group that it stands in.
                flags.fold_case = inner.fold_case
                return None
        node = self._choice(inner)
        if not self._take(")"):
            raise RegexSyntaxError(f"missing closing ): `{self._text}`")
        return node

    def _name(self) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, self._at)]
        if end < 0 or not name or not all(char in WORD for char in name) or name in self._names:
            raise RegexSyntaxError(f"invalid named capture: `{name}`")
        self._names.add(name)
        self._at = end + 1

    def _set_flags(self, flags: _Flags) -> bool:
        """Read the flags of ``(?i)`` and ``(?i:``; whether it was the former."""
        start = self._at
        on = True
        while True:
            char = self._peek()
            self._at += 1
            if char == "i":
                flags.fold_case = on
            elif char == "-" and on:
                on = False
            elif char in (":", ")") and char:
                if not on and self._text[self._at - 2] == "-":
                    break
                return char == ")" and self._at - 1 > start
            elif char not in ("m", "s", "U") or not char:
                # Lines do not end within a name, so that m and s say nothing; U is about who takes more.
                break
        raise RegexSyntaxError(f"invalid or unsupported Perl syntax: `(?{self._text[start : self._at]}`")

    def _escape(self, flags: _Flags) -> Node:
        char = self._peek()
        self._at += 1
        if char in ("A", "z") and char:
            return Assertion("^" if char == "A" else "$")
        if char in ("b", "B") and char:
            return Assertion(char)
        if char == "C":
            return Char(ALPHABET)
        self._at -= 1
        return Char(_folded(self._escaped_set(), flags))

    def _escaped_set(self) -> frozenset[str]:
        """What follows a backslash, within a class or without: a class of Perl's or Unicode's, or a character."""
        char = self._peek()
        if char.lower() in _PERL and char:
            self._at += 1
            return _PERL[char.lower()] if char.islower() else ALPHABET - _PERL[char.lower()]
        if char in ("p", "P") and char:
            self._at += 1
            return self._property(char == "P")
        return frozenset(self._escaped_char())

    def _escaped_char(self) -> str:
        start = self._at
        char = self._peek()
        self._at += 1
        if char in _ESCAPED and char:
            return _ESCAPED[char]
        if char == "x":
            end = self._text.find("}", self._at) if self._take("{") else self._at + 2
            digits = self._text[self._at : max(end, 0)]
            braced = self._text[self._at - 1] == "{"
            if digits and all(digit in string.hexdigits for digit in digits) and (braced or len(digits) == 2):
                code = int(digits, 16)
                if code <= 0x10FFFF:
                    self._at = end + braced
                    return chr(code)
        elif char in _DIGITS and (char == "0" or self._peek() in "01234567"):
            # Octal: up to three digits, and a single one other than 0 would be a backreference.
            digits = char
            while len(digits) < 3 and self._peek() and self._peek() in "01234567":
                digits += self._peek()
                self._at += 1
            if self._octal(digits):
                return chr(int(digits, 8))
        elif char and not char.isalnum() and ord(char) < 0x80:
            return char
        if not char:
            raise RegexSyntaxError("trailing backslash at end of expression: ``")
        raise RegexSyntaxError(f"invalid escape sequence: `\\{self._text[start : start + 1]}`")

    def _octal(self, digits: str) -> bool:
        return all(digit in "01234567" for digit in digits) and (digits[0] == "0" or len(digits) > 1)

    def _property(self, negated: bool) -> frozenset[str]:
        if self._take("{"):
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            end = self._at
            name = self._peek()
            self._at += 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = _unicode(name)
        if end < 0 or found is None:
            raise RegexSyntaxError(f"invalid character class range: `\\p{{{name}}}`")
        return ALPHABET - found if negated else found

    def _class(self, flags: _Flags) -> frozenset[str]:
        start = self._at - 1
        negated = self._take("^")
        members: frozenset[str] = frozenset()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._at >= len(self._text):
                raise RegexSyntaxError(f"missing closing ]: `{self._text[start:]}`")
            if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at)) >= 0:
                name = self._text[self._at + 2 : end]
                if name.removeprefix("^") not in _POSIX:
                    raise RegexSyntaxError(f"invalid character class range: `[:{name}:]`")
                found = _POSIX[name.removeprefix("^")]
                members |= ALPHABET - found if name.startswith("^") else found
                self._at = end + 2
                continue
            members |= self._range(flags)
        self._at += 1
        return ALPHABET - members if negated else members

    def _range(self, flags: _Flags) -> frozenset[str]:
        start = self._at
        if self._peek() == "\\" and self._text[self._at + 1 : self._at + 2].lower() in ("d", "w", "s", "p"):
            self._at += 1
            return _folded(self._escaped_set(), flags)
        low = high = self._class_char()
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._class_char()
            if high < low:
                raise RegexSyntaxError(f"invalid character class range: `{self._text[start : self._at]}`")
        return _folded(frozenset(char for char in ALPHABET if low <= char <= high), flags)

    def _class_char(self) -> str:
        char = self._peek()
        self._at += 1
        if not char:
            raise RegexSyntaxError(f"missing closing ]: `{self._text}`")
        return self._escaped_char() if char == "\\" else char


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _literal(char: str, flags: _Flags) -> Char:
    return Char(_folded(frozenset(char), flags))


def _folded(chars: frozenset[str], flags: _Flags) -> frozenset[str]:
    if flags.fold_case:
        # Two characters beyond ASCII fold to letters of it.
        chars |= {"k"} if "K" in chars else frozenset()
        chars |= {"s"} if "ſ" in chars else frozenset()
        chars |= {char.swapcase() for char in chars}
    return chars & ALPHABET


def _unicode(name: str) -> frozenset[str] | None:
    """The characters of a Unicode category or script; None where there is no such."""
    if name == "Any":
        return ALPHABET
    if name in _LETTERS_OF_SCRIPT:
        return _LETTERS_OF_SCRIPT[name]
    if len(name) <= 2 and name[:1] in tuple("LMNPSZC"):
        return frozenset(char for char in ALPHABET if unicodedata.category(char).startswith(name))
    return None
