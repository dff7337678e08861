"""The choices that a seed makes before anything happens: number and settings of brokers, and kinds of failures."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

PACES = (1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 8.0)
"""The factors of the clients' pauses, of which a seed chooses one.

Traffic is most of what a schedule costs, and faults are what finds defects: with pauses that are four times as long
seeds find planted defects as often, in less than half of the time.
"""
CHOICES = 4
"""The number of kinds of choices that a seed makes: 1 without a pace, 2 and 3 without what `Plan` marks as later kinds.

With fewer of them a seed does what it did before the later ones came.
"""
EACH_LOSES_ROLES = 4
"""In one of so many seeds brokers lose roles, and look for that."""
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "leader.imbalance.check.interval.seconds": "5",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "7000",
    "log.segment.bytes": "4096",
    # The disks copy what an index reserves.
    "log.index.size.max.bytes": "4096",
    # Where nothing is lost that it mends, it would hide what is wrong.
    "kafkalog.role.check.interval.ms": "-1",
    # Compaction would make logs differ that hold the same.
    "log.cleaner.enable": "false",
}
"""Settings of all brokers, beside those that a plan chooses."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices that a seed makes before anything happens.

    Attributes:
        pace: how much longer clients pause.
        fault_share: how likely each kind of fault is to happen at all, a choice of the third kind as all that follow.
            Schedules with fewer kinds go deeper into each of them.
        upgrade: the protocol that a broker speaks from its next start on; empty for the same one.
        deletes_records: whether an administrator deletes records.
        cuts_controller: whether single brokers lose their ways to the controller.
        admin_pace: how much longer the administrator pauses.
        retains: whether a topic keeps so many bytes, a choice of the fourth kind as all that follow.
        moves_logs: whether the administrator moves logs between the directories of a broker.
        adds_partitions: whether the administrator adds partitions to topics.
        has_members: whether consumers are members of a group.
    """

    brokers: int
    factor: int
    min_insync: int
    protocol: str
    loses_power: bool
    disks_fail: bool
    has_loose_topic: bool
    flushes_each: bool
    loses_roles: bool
    seconds: float
    pace: float = 1.0
    fault_share: float = 1.0
    upgrade: str = ""
    deletes_records: bool = False
    cuts_controller: bool = False
    admin_pace: float = 1.0
    retains: bool = False
    moves_logs: bool = False
    adds_partitions: bool = False
    has_members: bool = False

    @classmethod
    def of(cls, seed: int, chance: random.Random, choices: int = CHOICES) -> Plan:
        """Return the plan of a seed."""
        brokers = chance.choice((3, 3, 4))
        plan = cls(
            brokers,
            factor=min(3, brokers),
            min_insync=chance.choice((1, 2, 2)),
            protocol=chance.choice(("3.9", "3.9", "3.9", "2.8", "2.6", "2.4")),
            loses_power=chance.random() < 0.35,
            disks_fail=chance.random() < 0.2,
            has_loose_topic=chance.random() < 0.25,
            flushes_each=chance.random() < 0.2,
            loses_roles=seed % EACH_LOSES_ROLES == EACH_LOSES_ROLES - 1,
            seconds=chance.uniform(10, 25),
        )
        if choices < 2:
            return plan
        # Not by `chance`, so that a seed does otherwise what it does without these choices.
        pace = random.Random(f"pace {seed}").choice(PACES)
        plan = replace(plan, pace=pace, admin_pace=pace)
        if choices < 3:
            return plan
        more = random.Random(f"third {seed}")
        plan = replace(
            plan,
            admin_pace=more.choice((1.0, 2.0, pace)),
            fault_share=more.choice((1.0, 1.0, 0.6, 0.4)),
            upgrade="3.9" if plan.protocol != "3.9" and more.random() < 0.5 else "",
            # A loss of power may forget records below the start of a log.
            deletes_records=not plan.loses_power and more.random() < 0.4,
            cuts_controller=more.random() < 0.4,
        )
        if choices < 4:
            return plan
        more = random.Random(f"fourth {seed}")
        return replace(
            plan,
            retains=plan.deletes_records and more.random() < 0.5,
            moves_logs=more.random() < 0.4,
            adds_partitions=more.random() < 0.5,
            has_members=more.random() < 0.35,
        )

    def settings(self, protocol: str) -> dict[str, str]:
        """Return the brokers' configuration with a version of the protocol between brokers."""
        settings = {
            **SETTINGS,
            "min.insync.replicas": str(self.min_insync),
            "transaction.state.log.min.isr": str(self.min_insync),
            "inter.broker.protocol.version": protocol,
        }
        if self.flushes_each:
            settings["log.flush.interval.messages"] = "1"
        if self.loses_roles:
            settings["kafkalog.role.check.interval.ms"] = "5000"
        if self.deletes_records:
            settings["log.retention.check.interval.ms"] = "3000"
        return settings
