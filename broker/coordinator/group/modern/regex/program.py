"""A Thompson automaton: the instructions that an expression's tree is made into.

An instruction is a character, an assertion, a fork, or the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.coordinator.group.modern.regex.syntax import (
    Assertion,
    Char,
    Choice,
    Node,
    RegexSyntaxError,
    Sequence,
)

MAX_PROGRAM = 2_000


@dataclass(slots=True)
class Instruction:
    """What is passed, and the instructions after it; None passes without a character."""

    node: Char | Assertion | None
    following: list[int]


class Program:
    """See the module.

    Attributes:
        first: the instruction to begin with.
        end: the one that is reached when a whole name matches.

    Raises:
        RegexSyntaxError: it takes more than `MAX_PROGRAM` instructions.
    """

    def __init__(self, node: Node) -> None:
        self.instructions: list[Instruction] = []
        self.end = self._add(None, [])
        self.first = self._compile(node, self.end)

    def _add(self, node: Char | Assertion | None, following: list[int]) -> int:
        if len(self.instructions) >= MAX_PROGRAM:
            raise RegexSyntaxError("expression too large")
        self.instructions.append(Instruction(node, following))
        return len(self.instructions) - 1

    def _compile(self, node: Node, end: int) -> int:
        """Add what matches ``node`` and goes on at ``end``; where it begins."""
        if isinstance(node, Char | Assertion):
            return self._add(node, [end])
        if isinstance(node, Choice):
            return self._add(None, [self._compile(part, end) for part in node.parts])
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                end = self._compile(part, end)
            return end
        if node.most is None:
            fork = self._add(None, [end])
            self.instructions[fork].following.append(self._compile(node.part, fork))
            end = fork
        else:
            past = end
            for _ in range(node.most - node.least):
                end = self._add(None, [past, self._compile(node.part, end)])
        for _ in range(node.least):
            start = self._compile(node.part, end)
            if start == end:
                # Nothing, however often, is nothing.
                break
            end = start
        return end
