"""Java's regular expressions in options: they are searched for anywhere in a name.

Spark's source searches for `subscribePattern` so (`findFirstIn`): `orders` also matches `orders-eu`, and `^orders$`
matches one topic. Expressions without a counterpart in Python are refused, and never taken to mean something else.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog import java_regex


class PatternError(ValueError):
    """An expression is invalid, or has no counterpart in Python; the message goes on after the expression."""


def compile_java(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a name contains a match.

    Raises:
        PatternError: The text is no regular expression of Java, or it has something that is not supported.
    """
    try:
        search = java_regex.compile_java(pattern).search
    except java_regex.UnreadableExpressionError as error:
        raise PatternError(f"is no regular expression of Java that can be read here: {error}") from None
    return lambda name: search(name) is not None
