"""Parse the text of `sasl.jaas.config`: one login module, a control flag, and options. JAAS files have several.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";

The rules are those of Kafka's `JaasConfig` and of Java's `StreamTokenizer`, which reads the text there:

- A word begins with a letter, `_` or `$`, and goes on with letters, digits, `_`, `$`, `-` and `.`. A value of other
  characters stands in double or single quotes, on one line.
- In quotes, a backslash begins an escape: `\\n`, `\\t`, `\\r`, `\\b`, `\\f`, `\\a`, `\\v`, an octal number up to
  `\\377`, or the next character as it is.
- `//` and `/` begin a comment until the end of the line; `/*` begins one until `*/`.
- Of an option that is given twice, the last value counts.

No error shows a value. Text that stands where a name is expected may be a part of a value whose quotes are wrong, so
that it is shown only if it is the name of an option or a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkalog.client.errors import ConfigError

PROPERTY = "sasl.jaas.config"
_EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHADED = ("kafkashaded.", "shadedmskiam.")
"""Prefixes of the same classes in Databricks' runtime, which texts written for it have."""


class LoginModule(Enum):
    """The login modules that are known here; each value is the name of Java's class."""

    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    """With the option `tokenauth="true"`, the credentials are those of a delegation token."""
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
    AWS_MSK_IAM = "software.amazon.msk.auth.iam.IAMLoginModule"

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The values of `sasl.mechanism` that use the module."""
        return _MECHANISMS[self]


_MECHANISMS = {
    LoginModule.PLAIN: ("PLAIN",),
    LoginModule.SCRAM: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    LoginModule.OAUTHBEARER: ("OAUTHBEARER",),
    LoginModule.KRB5: ("GSSAPI",),
    LoginModule.AWS_MSK_IAM: ("AWS_MSK_IAM",),
}
_BY_NAME = {
    **{module.value: module for module in LoginModule},
    # Kerberos in IBM's Java, and OAUTHBEARER before Kafka 2.0.
    "com.ibm.security.auth.module.Krb5LoginModule": LoginModule.KRB5,
}

_LISTED = """
    username password tokenauth serviceName keyTab principal useKeyTab useTicketCache ticketCache renewTGT storeKey
    doNotPrompt refreshKrb5Config isInitiator useFirstPass tryFirstPass storePass clearPass debug credsType
    clientId clientSecret scope ssl.truststore.location ssl.truststore.password ssl.truststore.type
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.key.password ssl.protocol
    awsProfileName awsRoleArn awsRoleSessionName awsStsRegion awsDebugCreds awsRoleAccessKeyId
    awsRoleSecretAccessKey awsRoleSessionToken awsRoleExternalId awsMaxRetries awsMaxBackOffTimeMs
    awsAddDefaultProviders awsShouldUseFips awsMskRegionProvider
"""
OPTION_NAMES = frozenset(_LISTED.split())
"""Names of options that errors may show; any other text could be a part of a secret."""


@dataclass(frozen=True)
class JaasLogin:
    """The content of a JAAS text: the login module and its options."""

    module: LoginModule
    flag: str
    """The control flag in lower case. With a single module it has no effect."""
    options: Mapping[str, str] = field(repr=False)
    """The options by name; passwords are among them."""

    def check_mechanism(self, mechanism: str) -> None:
        """Check that a mechanism can use this login.

        Raises:
            ConfigError: The module is that of another mechanism.
        """
        if mechanism not in self.module.mechanisms:
            mechanisms = " or ".join(self.module.mechanisms)
            fitting = [module.value for module in LoginModule if mechanism in module.mechanisms]
            other = f", or use {fitting[0]}" if fitting else ""
            name = self.module.value.rpartition(".")[2]
            raise ConfigError(
                f"{PROPERTY}: {name} does not fit sasl.mechanism={mechanism}; set sasl.mechanism={mechanisms}{other}"
            )


def parse_jaas(text: str) -> JaasLogin:
    """Parse the value of `sasl.jaas.config`.

    Raises:
        ConfigError: The text has no module, more than one or an unknown one, or is not written as Kafka wants it. The
            message shows no values.
    """
    module, flag, options = parse_entry(text, PROPERTY, _EXAMPLE)
    return JaasLogin(_known_module(module), flag, options)


def parse_entry(text: str, name: str, example: str) -> tuple[str, str, dict[str, str]]:
    """Parse one login module; return its name, its flag and its options.

    Args:
        text: The entry.
        name: The property that it comes from, for errors.
        example: A right value, for errors.

    Raises:
        ConfigError: The text is no such entry. The message shows no values.
    """
    try:
        tokens = list(_tokens(text))
        if not tokens:
            raise _error("a login module is expected", None)
        module, flag, options, after = _entry(tokens)
        if after < len(tokens):
            raise _error("one login module is expected; more text follows the first semicolon", tokens[after])
    except _SyntaxError as error:
        raise ConfigError(f"{name}: {error}; write it as in: {example}") from None
    return module, flag, options


def parse_sections(text: str, name: str) -> dict[str, list[tuple[str, str, dict[str, str]]]]:
    """Parse a JAAS file; return the entries of each section, with what `parse_entry` returns of one.

    A section is `name { module flag name="value" …; … };`, as Java's `ConfigFile` reads it.

    Args:
        text: The content of the file.
        name: Where it comes from, for errors.

    Raises:
        ConfigError: It is no such text. The message shows no values.
    """
    sections: dict[str, list[tuple[str, str, dict[str, str]]]] = {}
    try:
        tokens = list(_tokens(text))
        while tokens:
            title, entries, after = _section(tokens)
            if title in sections:
                raise _error("there is another section of this name before", tokens[0])
            sections[title] = entries
            tokens = tokens[after:]
    except _SyntaxError as error:
        raise ConfigError(f"{name}: {error}") from None
    return sections


class _SyntaxError(Exception):
    """The text is no entry; the message says why."""


class _Token(NamedTuple):
    text: str
    is_text: bool
    """True if this is a word or a quoted value, not a single character such as `=`."""
    line: int


# Letters, `_`, `$` and all from U+00A0 on; then also digits, `.` and `-`. Python takes 10 ms to compile a set with a
# range that large, and 0.1 ms for the set of what is left.
_WORD = re.compile(r"[^\x00-#%-@\[-^`{-\x9f][^\x00-#%-,/:-@\[-^`{-\x9f]*")
_NUMBER = re.compile(r"[0-9.\-]+")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        char = text[at]
        if char <= " ":
            line += char == "\n"
            at += 1
        elif char == "/":
            end = _end_of_comment(text, at)
            line += text.count("\n", at, end)
            at = end
        elif char in "\"'":
            value, at = _quoted(text, at, line)
            yield _Token(value, True, line)
        elif word := _WORD.match(text, at):
            at = word.end()
            yield _Token(word[0], True, line)
        else:
            number = _NUMBER.match(text, at)
            at = number.end() if number else at + 1
            yield _Token("0" if number else char, False, line)


def _end_of_comment(text: str, start: int) -> int:
    if text.startswith("/*", start):
        end = text.find("*/", start + 2)
        return len(text) if end < 0 else end + 2
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _quoted(text: str, start: int, line: int) -> tuple[str, int]:
    """Return the value in quotes that begins at `start`, and where the text goes on."""
    quote, at = text[start], start + 1
    found = []
    while at < len(text) and text[at] not in f"{quote}\r\n":
        if text[at] != "\\":
            found.append(text[at])
            at += 1
        elif octal := _OCTAL.match(text, at + 1):
            found.append(chr(int(octal[0], 8)))
            at = octal.end()
        else:
            char = text[at + 1 : at + 2]
            found.append(_ESCAPES.get(char, char))
            at += 2
    if text[at : at + 1] != quote:
        raise _SyntaxError(f"a quoted value begins in line {line} and does not end there; close the quotes")
    return "".join(found), at + 1


def _section(tokens: list[_Token]) -> tuple[str, list[tuple[str, str, dict[str, str]]], int]:
    """Parse `name { entries };`; the last of the result is the position after it."""
    if not tokens[0].is_text or [(each.text, each.is_text) for each in tokens[1:2]] != [("{", False)]:
        raise _error("a section is expected, which begins with its name and {", tokens[0])
    entries: list[tuple[str, str, dict[str, str]]] = []
    at = 2
    while at < len(tokens) and tokens[at].text != "}":
        module, flag, options, length = _entry(tokens[at:])
        entries.append((module, flag, options))
        at += length
    if [(each.text, each.is_text) for each in tokens[at : at + 2]] != [("}", False), (";", False)]:
        raise _error("the end of a section is expected, which is };", tokens[min(at, len(tokens) - 1)])
    return tokens[0].text, entries, at + 2


def _entry(tokens: list[_Token]) -> tuple[str, str, dict[str, str], int]:
    """Parse `module flag name=value … ;`; the last of the result is the position after it."""
    end = _Token("", False, tokens[-1].line)
    get = dict(enumerate(tokens)).get
    module, flag = tokens[0], get(1, end)
    if not module.is_text:
        raise _error("the name of a login module is expected first", module)
    if not flag.is_text or flag.text.lower() not in _FLAGS:
        raise _error(f"after the login module, one of {', '.join(_FLAGS)} is expected", flag)
    options: dict[str, str] = {}
    at, last = 2, f"after {flag.text.lower()}"
    while True:
        key, equals, value = get(at, end), get(at + 1, end), get(at + 2, end)
        if key == _Token(";", False, key.line):
            return module.text, flag.text.lower(), options, at + 1
        if at >= len(tokens):
            raise _error(f"a semicolon is missing at the end, {last}", None)
        if not key.is_text:
            raise _error(f'{last}, name="value" or a semicolon is expected', key)
        if equals.text != "=" or equals.is_text:
            raise _error(f'{_shown(key.text)} has no value; name="value" is expected, {last}', equals)
        if not value.is_text:
            raise _error(f"the value of {_shown(key.text)} is missing or has to stand in quotes", value)
        options[key.text] = value.text
        last = f"after the value of {_shown(key.text)}"
        at += 3


def _shown(option: str) -> str:
    return option if option in OPTION_NAMES else "an option"


def _known_module(name: str) -> LoginModule:
    plain = name
    for prefix in _SHADED:
        plain = plain.removeprefix(prefix)
    found = _BY_NAME.get(plain)
    if found is None:
        shown = f" {name}" if re.fullmatch(r"[a-z]\w*(\.[a-z]\w*)+\.[A-Z]\w*LoginModule", name) else ""
        known = ", ".join(module.value for module in LoginModule)
        raise ConfigError(f"{PROPERTY}: the login module{shown} is not known; known are {known}")
    return found


def _error(problem: str, where: _Token | None) -> _SyntaxError:
    return _SyntaxError(problem if where is None else f"{problem} (line {where.line})")
