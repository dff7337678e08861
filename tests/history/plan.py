"""Derive a history's plan from a seed: its clients, and the faults after numbers of acknowledged records. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.history.events import Isolation

BROKER = "broker"


class Role(StrEnum):
    """What a client does."""

    WRITE = "write"
    TRANSACT = "transact"
    COPY = "copy"
    READ = "read"
    GROUP = "group"


class Library(StrEnum):
    """Whose client library it does it with."""

    LIBRDKAFKA = "librdkafka"
    KAFKALOG = "kafkalog"


@dataclass(frozen=True)
class ClientSpec:
    """One client. ``name`` tells it from the others of the history; ``incarnation`` from itself before a kill."""

    name: str
    role: Role
    library: Library
    chance: int
    """Seed of what it chooses by chance."""
    source: str
    """The topic that is written to, and copied from."""
    copy: str
    """The topic of the copies."""
    partitions: int
    isolation: Isolation = Isolation.UNCOMMITTED
    transaction_timeout_ms: int = 10_000
    static: bool = False
    """Whether it is a static member of its group (KIP-345)."""
    final: bool = False
    """Whether it makes the history's final session of its isolation."""
    drains: bool = False
    """Whether, told to end, it first copies everything that is left."""
    incarnation: int = 1

    @property
    def client(self) -> str:
        """The client's name in the history."""
        return f"{self.name}.{self.incarnation}"

    @property
    def group(self) -> str:
        """The consumer group of its role in this history."""
        return f"{self.source}-{self.role}"

    def again(self) -> ClientSpec:
        """The same after a kill."""
        return replace(self, incarnation=self.incarnation + 1)


class Act(StrEnum):
    """What is done to a client or the broker."""

    KILL = "kill"
    """SIGKILL, and start it again at once."""
    END = "end"
    """SIGKILL for ever: its open transaction is left to time out."""
    FREEZE = "freeze"
    """SIGSTOP, and start another in its place."""
    THAW = "thaw"
    """SIGCONT: the old one goes on beside the new one, which must not harm."""


@dataclass(frozen=True)
class Fault:
    """What befalls ``target`` (BROKER or the name of a client) after so many acknowledged records."""

    after: int
    target: str
    act: Act = Act.KILL


@dataclass(frozen=True)
class Plan:
    """A seed, spelled out."""

    seed: int
    source: str
    copy: str
    partitions: int
    clients: tuple[ClientSpec, ...]
    faults: tuple[Fault, ...]
    records: int
    """How many records are acknowledged before the writers are told to end."""


def plan(seed: int, run: str = "h", copiers: int = 2) -> Plan:
    """The plan of a seed, with at most so many ``copiers``; ``run`` begins the names of its topics."""
    chance = random.Random(seed)
    source, copy = f"{run}-{seed}-in", f"{run}-{seed}-out"
    partitions = chance.randint(1, 3)

    def client(name: str, role: Role, **told: object) -> ClientSpec:
        base = ClientSpec(name, role, Library.LIBRDKAFKA, chance.getrandbits(32), source, copy, partitions)
        return replace(base, **told)  # type: ignore[arg-type]

    def library(own: float) -> Library:
        return Library.KAFKALOG if chance.random() < own else Library.LIBRDKAFKA

    clients = [
        client("write 1", Role.WRITE),
        client("write 2", Role.WRITE, library=Library.KAFKALOG),
        *(
            client(f"transact {number}", Role.TRANSACT, library=library(0.5))
            for number in range(1, 1 + chance.randint(1, 2))
        ),
        *(
            client(
                f"copy {number}",
                Role.COPY,
                isolation=Isolation.COMMITTED,
                static=number == 1 and chance.random() < 0.5,
                drains=number == 1,
            )
            for number in range(1, 1 + min(chance.randint(1, 2), copiers))
        ),
        client("group 1", Role.GROUP, isolation=chance.choice(list(Isolation)), library=library(0.5)),
        client("read 1", Role.READ, isolation=chance.choice(list(Isolation)), library=library(0.5)),
        *(client(f"final {isolation}", Role.READ, isolation=isolation, final=True) for isolation in Isolation),
    ]
    if chance.random() < 0.3:
        clients.append(client("abandon", Role.TRANSACT, transaction_timeout_ms=1_000))
    records = chance.randint(200, 400)
    return Plan(seed, source, copy, partitions, tuple(clients), _faults(chance, clients, records), records)


def _faults(chance: random.Random, clients: list[ClientSpec], records: int) -> tuple[Fault, ...]:
    victims = [each.name for each in clients if not each.final and each.name != "abandon"]
    faults = [Fault(chance.randrange(20, records), BROKER) for _ in range(1 if chance.random() < 0.8 else 2)]
    if chance.random() < 0.6:
        faults.append(Fault(chance.randrange(20, records), chance.choice(victims)))
    if chance.random() < 0.4:
        first, second = sorted(chance.sample(range(20, records), 2))
        victim = chance.choice([name for name in victims if name.startswith(("transact", "copy", "group"))])
        faults += [Fault(first, victim, Act.FREEZE), Fault(second, victim, Act.THAW)]
    if any(each.name == "abandon" for each in clients):
        faults.append(Fault(chance.randrange(20, records), "abandon", Act.END))
    return tuple(sorted(faults, key=lambda fault: fault.after))
