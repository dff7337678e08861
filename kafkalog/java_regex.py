"""Regular expressions of Java (`java.util.regex.Pattern`) for names of topics, as Python's.

Lists of topics are Java's expressions, and so is the option `subscribePattern` of Spark's source. Members of Kafka 0.8
write theirs into ZooKeeper, and each member has to come to the same topics for all of them. Names of topics are ASCII,
so each class of characters is worked out over ASCII: `\\p{Alpha}`, `[a-z&&[^b]]` and `[a[b-d]]` become plain classes.

What Python's engine cannot do, what versions of Java read differently, and what is no expression of Java is refused.
`tests/kafkalog/test_java_regex.py` compares with Java itself.
"""

from __future__ import annotations

import re
import string
import unicodedata

ASCII = frozenset(map(chr, range(128)))
_SPACE = frozenset(" \t\n\x0b\f\r")
_ESCAPED_SETS = {
    "d": frozenset(string.digits),
    "h": frozenset(" \t"),
    "s": _SPACE,
    "v": frozenset("\n\x0b\f\r"),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
}
_SETS = tuple("dDhHsSvVwWpP")
"""The characters that follow the backslash of an escape that stands for a set of characters."""
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_GRAPH = frozenset(string.ascii_letters + string.digits + string.punctuation)
_CONTROL = frozenset(each for each in ASCII if unicodedata.category(each) == "Cc")
_PROPERTIES = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": ASCII,
    "Alpha": frozenset(string.ascii_letters),
    "Digit": frozenset(string.digits),
    "Alnum": frozenset(string.ascii_letters + string.digits),
    "Punct": frozenset(string.punctuation),
    "Graph": _GRAPH,
    "Print": _GRAPH | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": _CONTROL,
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACE,
    "IsAlphabetic": frozenset(string.ascii_letters),
    "IsLetter": frozenset(string.ascii_letters),
    "IsLatin": frozenset(string.ascii_letters),
    "IsLowercase": frozenset(string.ascii_lowercase),
    "IsUppercase": frozenset(string.ascii_uppercase),
    "IsDigit": frozenset(string.digits),
    "IsPunctuation": frozenset(each for each in ASCII if unicodedata.category(each)[0] == "P"),
    "IsWhite_Space": _SPACE,
    "IsControl": _CONTROL,
    "IsHex_Digit": frozenset(string.hexdigits),
    "InBasicLatin": ASCII,
    "InBasic_Latin": ASCII,
    "script=Latin": frozenset(string.ascii_letters),
    "LC": frozenset(string.ascii_letters),
    "javaLowerCase": frozenset(string.ascii_lowercase),
    "javaUpperCase": frozenset(string.ascii_uppercase),
    "javaLetter": frozenset(string.ascii_letters),
    "javaDigit": frozenset(string.digits),
    "javaLetterOrDigit": frozenset(string.ascii_letters + string.digits),
    "javaWhitespace": _SPACE | frozenset("\x1c\x1d\x1e\x1f"),
}
_CATEGORY = re.compile(
    r"(?:Is|gc=|general_category=)?([LMNZCPS]|L[ulmot]|M[nce]|N[dlo]|Z[slp]|C[cfos]|P[cdseifo]|S[mcko])"
)
_OF_CASE = frozenset(("Lower", "Upper", "IsLowercase", "IsUppercase", "javaLowerCase", "javaUpperCase"))
_CASES = frozenset(("Lu", "Ll", "Lt"))
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_KNOWN_FLAGS = frozenset("imsu")
_GROUP = re.compile(r"\((?:\?(?::|=|!|<=|<!|>))?(?!\?)")
_NAMED_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_BACK_REFERENCE = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
_REPETITION = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_PROPERTY = re.compile(r"[pP](?:\{([A-Za-z_=]+)\}|([A-Z]))")


class UnreadableExpressionError(ValueError):
    """An expression of Java cannot be read here; the text says what of it."""


def compile_java(expression: str) -> re.Pattern[str]:
    """Return Python's expression that matches the same names of topics as a whole (`fullmatch`).

    Raises:
        UnreadableExpressionError: There is none, or `expression` is no regular expression of Java.
    """
    try:
        return re.compile(_Translation(expression).translate(), re.ASCII)
    except re.error as error:
        raise UnreadableExpressionError(str(error)) from None
    except (OverflowError, RecursionError):
        raise UnreadableExpressionError("it is too large, or nested too deeply") from None


class _Translation:
    """The translation of one expression, from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._folds = False
        """True if letters match in either case."""
        self._outer: list[bool] = []
        """The same for what surrounds each open group."""

    def translate(self) -> str:
        found = []
        while self._at < len(self._text):
            found.append(self._item())
        return "".join(found)

    # Outside of classes

    def _item(self) -> str:
        match self._text[self._at]:
            case "[":
                return _class_of(self._class())
            case "(":
                self._outer.append(self._folds)
                return self._group()
            case ")" if self._outer:
                self._folds = self._outer.pop()
            case "{":
                return self._taken(_REPETITION, "{ without a number of repetitions")[0]
            case "\\":
                self._at += 1
                return self._escape()
        self._at += 1
        return self._text[self._at - 1]

    def _group(self) -> str:
        if (named := self._take(_NAMED_GROUP)) is not None:
            return f"(?P<{named[1]}>"
        begin = self._at
        if (flags := self._take(_FLAGS)) is not None:
            return self._flags(flags, begin)
        return self._taken(_GROUP, f"the group {self._text[self._at : self._at + 4]}")[0]

    def _flags(self, found: re.Match[str], begin: int) -> str:
        """Translate flags, which hold for a group, or at the beginning for the whole expression."""
        on, off, ending = found[1], found[2] or "", found[3]
        unknown = sorted({*on, *off} - _KNOWN_FLAGS)
        if unknown:
            raise UnreadableExpressionError(f"the flag {unknown[0]}")
        if ending == ")" and (begin > 0 or off):
            raise UnreadableExpressionError(
                f"{found[0]} within the expression; write {found[0][:-1]}:…) around what it is meant for"
            )
        if ending == ")":
            self._outer.pop()
        self._folds = "i" not in off and (self._folds or "i" in on)
        # Flag u is about case beyond ASCII.
        on, off = on.replace("u", ""), off.replace("u", "")
        if not on and not off:
            return "(?:" if ending == ":" else ""
        return f"(?{on}{'-' + off if off else ''}{ending}"

    def _escape(self) -> str:
        character = self._peek()
        if character == "R":
            self._at += 1
            return r"(?:\r\n|[\n\x0b\f\r])"
        if character in _SETS:
            return _class_of(self._escaped_set())
        if (reference := self._take(_BACK_REFERENCE)) is not None:
            return f"(?P={reference[1]})"
        if character == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 1 :] if end < 0 else self._text[self._at + 1 : end]
            self._at = len(self._text) if end < 0 else end + 2
            return re.escape(quoted)
        if character in "bBAzZ":
            self._at += 1
            return r"\Z" if character == "z" else f"\\{character}"
        if character in "123456789":
            self._at += 1
            if self._peek("").isdecimal():
                raise UnreadableExpressionError(f"the back reference \\{character}{self._peek()}")
            return f"(?:\\{character})"
        return re.escape(self._escaped_character())

    # Within classes and outside

    def _escaped_set(self) -> frozenset[str]:
        """Read the set of an escape such as \\d or \\p{Alpha}, after its backslash."""
        character = self._peek()
        if character in "pP":
            found = self._taken(_PROPERTY, f"\\{self._text[self._at : self._at + 10]}")
            chosen = self._property(found[1] or found[2])
        else:
            self._at += 1
            chosen = _ESCAPED_SETS[character.lower()]
        return chosen if character.islower() else ASCII - chosen

    def _property(self, name: str) -> frozenset[str]:
        category = _CATEGORY.fullmatch(name)
        if self._folds and (name in _OF_CASE or (category is not None and category[1] in _CASES)):
            raise UnreadableExpressionError(f"the property {name} with (?i)")
        if category is not None:
            return frozenset(each for each in ASCII if unicodedata.category(each).startswith(category[1]))
        if name not in _PROPERTIES:
            raise UnreadableExpressionError(f"the property {name}; name the characters, as in [A-Z]")
        return _PROPERTIES[name]

    def _escaped_character(self) -> str:
        """Read the character that an escape stands for, after its backslash."""
        character = self._peek()
        if (code := self._take(_CODE)) is not None:
            return chr(int(code[1] or code[2], 16))
        self._at += 1
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum():
            raise UnreadableExpressionError(f"\\{character}")
        return character

    # Classes

    def _class(self) -> frozenset[str]:
        """Read a class from its opening bracket to its closing one; return the ASCII characters that it has."""
        self._at += 1
        is_negated = self._peek() == "^"
        if is_negated:
            self._at += 1
        chosen: frozenset[str] = frozenset()
        begin, is_compound = self._at, False
        while self._peek() != "]":
            if self._peek() == "[":
                is_compound = True
                chosen |= self._class()
            elif self._text.startswith("&&", self._at):
                is_compound = True
                if self._at == begin:
                    raise UnreadableExpressionError("&& with nothing before it")
                chosen &= self._right_side()
                break
            else:
                chosen |= self._member()
        if self._at == begin:
            raise UnreadableExpressionError("] after [")
        if is_negated and is_compound:
            raise UnreadableExpressionError("a negated class with another class in it, which depends on Java's version")
        self._at += 1
        return ASCII - chosen if is_negated else chosen

    def _right_side(self) -> frozenset[str]:
        """Read what follows && up to the closing bracket: one class, or plain characters."""
        self._at += 2
        chosen: frozenset[str] = frozenset()
        if self._peek() == "[":
            chosen = self._class()
        elif self._peek() in "^&]":
            raise UnreadableExpressionError(f"&&{self._peek()}")
        else:
            while self._peek() not in "[]" and not self._text.startswith("&&", self._at):
                chosen |= self._member()
        if self._peek() != "]":
            raise UnreadableExpressionError("more than one class after &&, which Java reads in a way of its own")
        return chosen

    def _member(self) -> frozenset[str]:
        """Read a character of a class, a range, or the set of an escape."""
        if self._text.startswith("\\", self._at) and self._text[self._at + 1 : self._at + 2] in _SETS:
            self._at += 1
            chosen = self._escaped_set()
            if self._peek() == "-" and not self._text.startswith("-]", self._at):
                raise UnreadableExpressionError("a range that begins with a class")
            return chosen
        first = last = self._class_character()
        if self._peek() == "-" and not self._text.startswith("-]", self._at):
            self._at += 1
            if self._peek() == "[":
                raise UnreadableExpressionError("-[")
            last = self._class_character()
            if last < first:
                raise UnreadableExpressionError(f"the range {first}-{last}")
        chosen = frozenset(each for each in ASCII if first <= each <= last)
        return chosen | {each.swapcase() for each in chosen} if self._folds else chosen

    def _class_character(self) -> str:
        if self._peek() == "\\":
            self._at += 1
            return self._escaped_character()
        self._at += 1
        return self._text[self._at - 1]

    # The text

    def _peek(self, at_end: str | None = None) -> str:
        if self._at < len(self._text):
            return self._text[self._at]
        if at_end is None:
            raise UnreadableExpressionError("it ends too early")
        return at_end

    def _take(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        found = wanted.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _taken(self, wanted: re.Pattern[str], otherwise: str) -> re.Match[str]:
        found = self._take(wanted)
        if found is None:
            raise UnreadableExpressionError(otherwise)
        return found


def _class_of(characters: frozenset[str]) -> str:
    """Return the class of these characters."""
    if not characters:
        return "(?!)"
    return "[" + "".join(each if each.isalnum() else f"\\x{ord(each):02x}" for each in sorted(characters)) + "]"
