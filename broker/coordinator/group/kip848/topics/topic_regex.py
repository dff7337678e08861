"""Regular expressions over topic names (KIP-848), in RE2's syntax and in time linear in the names.

A member's expression comes from the network, and Python's `re` can be made to run for ever. Apache Kafka 4 uses
RE2/J, the port of Google's RE2 to Java. Here RE2 itself matches (`google-re2`), which reads the same syntax:
https://github.com/google/re2/wiki/Syntax. Backreferences and lookaround are errors in both, and an expression must
match the whole name. RE2 takes two things that RE2/J refuses, and neither changes what an expression means: `\\C`,
and two groups of one name.

Hostile expressions are bounded:

- by length: the key of the record that stores an expression can hold no more than `MAX_BYTES`;
- by memory: RE2 refuses a program that does not fit into `MAX_MEMORY`, and its automaton uses no more. Programs are
  compiled within milliseconds then;
- by time: all names together may take `MAX_SECONDS` of the processor.

RE2 releases the interpreter's lock while it matches a name, so the event loop runs on meanwhile. The library is
imported when the first expression is matched: it takes some milliseconds and 3.5 MB, and few brokers need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import thread_time

from kafkalog.protocol.errors import InvalidRegularExpressionError

MAX_BYTES = 32_767
MAX_MEMORY = 1 << 20
MAX_SECONDS = 2.0


def matching(text: str, names: Iterable[str], cpu_seconds: Callable[[], float] = thread_time) -> list[str]:
    """Return the names that an expression matches. Call it on a worker.

    Args:
        cpu_seconds: the processor's time that this thread has used.

    Raises:
        InvalidRegularExpressionError: it is not one of RE2's, or it takes too much memory or time.
    """
    import re2

    if len(text.encode()) > MAX_BYTES:
        raise _invalid(text[:100] + "…", "expression too large")
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    end = cpu_seconds() + MAX_SECONDS
    found = []
    try:
        compiled = re2.compile(text, options)
        for name in names:
            if compiled.fullmatch(name):
                found.append(name)
            if cpu_seconds() > end:
                raise InvalidRegularExpressionError(
                    f"SubscribedTopicRegex `{text}` takes too long to be matched against the topics."
                )
    except re2.error as error:
        raise _invalid(text, _reason(error)) from None
    finally:
        # The library remembers 128 expressions, each with an automaton of up to MAX_MEMORY.
        re2.purge()
    return found


def _invalid(text: str, reason: str) -> InvalidRegularExpressionError:
    return InvalidRegularExpressionError(f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.")


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
