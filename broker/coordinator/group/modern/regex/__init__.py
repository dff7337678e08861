"""Regular expressions over topic names, in RE2's syntax and in time linear in the name.

A member's expression comes from the network, and Python's ``re`` can be made to take for ever. This module runs a
Thompson automaton, whose sets of states it remembers as the states of a deterministic one. As topic names consist of
65 characters (letters, digits, ``.``, ``_``, ``-``), a character class is a set of those, and lines never end within a
name. An expression must match the whole name, as in Apache Kafka 4 (which uses RE2/J).

Syntax: https://github.com/google/re2/wiki/Syntax. As there, backreferences and lookaround are errors, and so is what
would take too long: repetitions above 1,000, automata of more than `MAX_PROGRAM` instructions, and matching against the
cluster's topics in more than `MAX_WORK` steps.

`syntax` reads an expression, `program` makes instructions of it, `matcher` runs them over names.
"""

from broker.coordinator.group.modern.regex.matcher import TopicRegex, compile_regex

__all__ = ["TopicRegex", "compile_regex"]
