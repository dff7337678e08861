"""Derive a history's plan from a seed: its clients, and the faults after numbers of acknowledged records. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.history.events import Isolation

BROKER = "broker"
"""The broker, or all of them. One of several is `broker 1` and so on."""


class Role(StrEnum):
    """The role of a client."""

    WRITE = "write"
    TRANSACT = "transact"
    COPY = "copy"
    READ = "read"
    GROUP = "group"


class Library(StrEnum):
    """The client library that it uses."""

    LIBRDKAFKA = "librdkafka"
    KAFKALOG = "kafkalog"


@dataclass(frozen=True)
class ClientSpec:
    """One client. `name` is unique among the clients; `incarnation` counts its restarts."""

    name: str
    role: Role
    library: Library
    chance: int
    """The seed of its random choices."""
    source: str
    """The topic that is written, and copied from."""
    copy: str
    """The topic of the copies."""
    partitions: int
    isolation: Isolation = Isolation.UNCOMMITTED
    transaction_timeout_ms: int = 10_000
    static: bool = False
    """True if it is a static member of its group (KIP-345)."""
    final: bool = False
    """True if it makes the history's final session of its isolation."""
    drains: bool = False
    """True if it first copies everything that is left when it is asked to end."""
    incarnation: int = 1

    @property
    def client(self) -> str:
        """Return the client's name in the history."""
        return f"{self.name}.{self.incarnation}"

    @property
    def group(self) -> str:
        """Return the consumer group of its role in this history."""
        return f"{self.source}-{self.role}"

    def again(self) -> ClientSpec:
        """Return the client after a restart."""
        return replace(self, incarnation=self.incarnation + 1)


class Act(StrEnum):
    """A fault of a client or a broker."""

    KILL = "kill"
    """Send SIGKILL, and start it again at once."""
    END = "end"
    """Send SIGKILL and do not restart: a client's open transaction times out, and others lead for a broker."""
    STOP = "stop"
    """Stop a broker in good order, and do not restart it."""
    START = "start"
    """Start a broker that has ended."""
    FREEZE = "freeze"
    """Send SIGSTOP, and start another client in its place."""
    THAW = "thaw"
    """Send SIGCONT: the old client continues beside the new one, as does a broker that led. That must be harmless."""


@dataclass(frozen=True)
class Fault:
    """A fault of `target` after a number of acknowledged records: of BROKER, of one of several, or of a client."""

    after: int
    target: str
    act: Act = Act.KILL


@dataclass(frozen=True)
class Plan:
    """The plan of a seed."""

    seed: int
    source: str
    copy: str
    partitions: int
    clients: tuple[ClientSpec, ...]
    faults: tuple[Fault, ...]
    records: int
    """The number of acknowledged records after which the writers are asked to end."""


def plan(seed: int, run: str = "h", copiers: int = 2, brokers: int = 1) -> Plan:
    """Make the plan of a seed, with at most `copiers` copiers; `run` is the prefix of its topics."""
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
    of_brokers = _of_one_broker(chance, records) if brokers == 1 else _of_brokers(chance, records, brokers)
    faults = (*of_brokers, *_of_clients(chance, clients, records))
    in_order = tuple(sorted(faults, key=lambda fault: fault.after))
    return Plan(seed, source, copy, partitions, tuple(clients), in_order, records)


def _of_one_broker(chance: random.Random, records: int) -> list[Fault]:
    return [Fault(chance.randrange(20, records), BROKER) for _ in range(1 if chance.random() < 0.8 else 2)]


_AWAY = (*[(Act.END, Act.START)] * 2, *[(Act.FREEZE, Act.THAW)] * 2, (Act.STOP, Act.START))
"""The pairs of faults by which a broker goes away and comes back."""


def _of_brokers(chance: random.Random, records: int, brokers: int) -> list[Fault]:
    """Return faults of several brokers. One is away at a time, because two of three are needed for acks=all."""
    times = sorted(chance.sample(range(20, records), 2 * chance.choice((1, 2, 2))))
    faults = []
    for gone, back in zip(times[::2], times[1::2], strict=True):
        name = f"{BROKER} {chance.randint(1, brokers)}"
        if chance.random() < 0.2:
            faults.append(Fault(gone, name if chance.random() < 0.5 else BROKER))
        else:
            leave, come = chance.choice(_AWAY)
            faults += [Fault(gone, name, leave), Fault(back, name, come)]
    return faults


def _of_clients(chance: random.Random, clients: list[ClientSpec], records: int) -> list[Fault]:
    victims = [each.name for each in clients if not each.final and each.name != "abandon"]
    faults = []
    if chance.random() < 0.6:
        faults.append(Fault(chance.randrange(20, records), chance.choice(victims)))
    if chance.random() < 0.4:
        first, second = sorted(chance.sample(range(20, records), 2))
        victim = chance.choice([name for name in victims if name.startswith(("transact", "copy", "group"))])
        faults += [Fault(first, victim, Act.FREEZE), Fault(second, victim, Act.THAW)]
    if any(each.name == "abandon" for each in clients):
        faults.append(Fault(chance.randrange(20, records), "abandon", Act.END))
    return faults
