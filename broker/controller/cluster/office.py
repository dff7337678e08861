"""The office of the controller while a broker holds it: what it knows, and how effects of decisions are carried out.

An office begins with an election and ends when the broker leaves it. What is under way then comes to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from broker.controller.cluster import log_ends
from broker.controller.cluster.channels import Channels, Connect
from broker.controller.cluster.model import effects
from broker.controller.cluster.model.context import ControllerContext
from broker.controller.cluster.model.effects import Steps
from broker.controller.cluster.session import SessionEndedError, Term
from broker.controller.cluster.watching import Kind, Watches
from broker.zookeeper.interface import WatchEvent

T = TypeVar("T")


class Office:
    """See the module. Used on the event loop's thread only.

    Args:
        context: What the controller knows of the cluster.
        epoch_version: The version of `/controller_epoch` that the election has set.
        term: Reads and writes ZooKeeper.
        watches: The nodes that are watched.
        channels: The connections to the brokers.
        connect: Makes links to brokers that are asked where their logs end.

    Attributes:
        context, epoch_version, watches, channels: As given.
    """

    def __init__(
        self,
        context: ControllerContext,
        epoch_version: int,
        term: Term,
        watches: Watches,
        channels: Channels,
        connect: Connect,
    ) -> None:
        self.context = context
        self.epoch_version = epoch_version
        self.watches = watches
        self.channels = channels
        self._term = term
        self._connect = connect
        self._has_ended = False

    def end(self) -> None:
        """Carry out no more effects, because the broker has left the office."""
        self._has_ended = True

    async def carry_out(self, steps: Steps[T]) -> T:
        """Carry out the effects of a decision; return its result.

        Raises:
            TermEndedError: The office has ended.
            KafkaError: The decision refuses.
        """
        result: Any = None
        try:
            while True:
                effect = steps.send(result)
                result = await self._effect(effect)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            steps.close()

    async def _effect(self, effect: effects.Effect) -> Any:
        if self._has_ended:
            raise SessionEndedError("the controller has resigned")
        match effect:
            case effects.Read():
                return await self._term.read(effect.paths, self._watch_of(Kind.DATA, effect.watch))
            case effects.Children():
                return await self._term.children(effect.paths, self._watch_of(Kind.CHILDREN, effect.watch))
            case effects.Write():
                return await self._term.write(effect.groups)
            case effects.Unwatch():
                for path in effect.paths:
                    self.watches.forget(path)
            case effects.Connect():
                self.channels.open(effect.brokers)
            case effects.Disconnect():
                self.channels.drop(effect.broker_ids)
            case effects.Send():
                self.channels.send(effect.requests)
            case effects.Ask():
                return await log_ends.ask(self._connect, self.context.brokers, effect.wanted, effect.timeout_s)
        return None

    def _watch_of(self, kind: Kind, is_watched: bool) -> Callable[[str], Callable[[WatchEvent], None] | None]:
        return lambda path: self.watches.watch(kind, path) if is_watched else None
