"""Which topic names an expression matches: its automaton, whose sets of states are remembered as states of their own.

Used on one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from broker.coordinator.group.modern.regex.program import Program
from broker.coordinator.group.modern.regex.syntax import WORD, Char, Node, Parser, RegexSyntaxError
from kafkalog.protocol.errors import InvalidRegularExpressionError

MAX_WORK = 1_000_000
_MAX_REMEMBERED = 20_000


def compile_regex(text: str) -> TopicRegex:
    """The automaton of an expression.

    Raises:
        InvalidRegularExpressionError: it is not one of RE2's, or too large.
    """
    try:
        return _compiled(text)
    except RegexSyntaxError as error:
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}."
        ) from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> TopicRegex:
    return TopicRegex(text, Parser(text).parse())


_START, _AFTER_WORD, _AFTER_OTHER = range(3)
_State: TypeAlias = tuple[frozenset[int], int]


class TopicRegex:
    """The automaton of one expression; see `compile_regex`."""

    def __init__(self, text: str, node: Node) -> None:
        self.text = text
        program = Program(node)
        self._program, self._first, self._end = program.instructions, program.first, program.end
        self._steps: dict[tuple[_State, str], _State] = {}
        self._work = 0

    def matches(self, name: str) -> bool:
        """Whether the whole of a topic's name matches.

        Raises:
            InvalidRegularExpressionError: this takes too many steps.
        """
        return bool(self.matching([name]))

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the names that match.

        Raises:
            InvalidRegularExpressionError: this takes too many steps.
        """
        self._work = 0
        try:
            return [name for name in names if self._matches(name)]
        finally:
            # The expression may be kept for long, and its states hold up to `MAX_WORK` instructions.
            self._steps.clear()

    def _matches(self, name: str) -> bool:
        state: _State = (frozenset((self._first,)), _START)
        for char in name:
            following = self._steps.get((state, char))
            if following is None:
                following = self._step(state, char)
            state = following
            if not state[0]:
                return False
        return self._end in self._closure(state, "")

    def _step(self, state: _State, char: str) -> _State:
        reached = frozenset(
            self._program[at].following[0]
            for at in self._closure(state, char)
            if isinstance(node := self._program[at].node, Char) and char in node.of
        )
        following = reached, _AFTER_WORD if char in WORD else _AFTER_OTHER
        if len(self._steps) >= _MAX_REMEMBERED:
            self._steps.clear()
        self._steps[state, char] = following
        return following

    def _closure(self, state: _State, char: str) -> set[int]:
        """The instructions that are reached without a character, before ``char`` (empty: the end of the name)."""
        starts, before = state
        at_edge = (before == _AFTER_WORD) != (char in WORD if char else False)
        holds = {"^": before == _START, "$": not char, "b": at_edge, "B": not at_edge}
        seen = set(starts)
        waiting = list(starts)
        while waiting:
            instruction = self._program[waiting.pop()]
            node = instruction.node
            if isinstance(node, Char) or (node is not None and not holds[node.kind]):
                continue
            for at in instruction.following:
                if at not in seen:
                    seen.add(at)
                    waiting.append(at)
        self._work += len(seen)
        if self._work > MAX_WORK:
            raise InvalidRegularExpressionError(
                f"SubscribedTopicRegex `{self.text}` takes too many steps to be matched against the topics."
            )
        return seen
