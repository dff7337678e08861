"""Run schedules in which brokers and clients have only the rights that they need: `… authorized SEED COUNT`.

Brokers have ClusterAction, by the addresses of their hosts, and nothing else; each client has what its work needs. If
brokers asked each other for anything under another right, elections, truncations and transactions would fail here.
"""

from __future__ import annotations

import sys

from broker.metadata.znodes import acls
from broker.security.authorizer.model import AclEntry, ResourcePattern
from broker.zookeeper.interface import Create
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.simulation.cluster import plan
from tests.simulation.cluster.schedule import Cluster, run_schedule

Op, Kind = AclOperation, AclResourceType
WORK = ("done", "acknowledged", "transactions")
RIGHTS: dict[str, tuple[tuple[AclResourceType, AclOperation], ...]] = {
    **{f"host{number}": ((Kind.CLUSTER, Op.CLUSTER_ACTION),) for number in range(1, 5)},
    "admin": ((Kind.TOPIC, Op.ALL), (Kind.CLUSTER, Op.ALTER)),
    **dict.fromkeys(("once", "all", "quick"), ((Kind.TOPIC, Op.WRITE),)),
    **{f"txn{number}": ((Kind.TOPIC, Op.WRITE), (Kind.TRANSACTIONAL_ID, Op.WRITE)) for number in range(2)},
    "group": ((Kind.GROUP, Op.READ), (Kind.TOPIC, Op.READ)),
    **{f"member{number}": ((Kind.GROUP, Op.READ), (Kind.TOPIC, Op.READ)) for number in range(3)},
    **{f"reader{number}": ((Kind.TOPIC, Op.READ),) for number in range(2)},
}
"""The rights of each host."""


def authorize(cluster: Cluster) -> None:
    """Write the entries into ZooKeeper."""
    entries: dict[ResourcePattern, set[AclEntry]] = {}
    for host, rights in RIGHTS.items():
        for kind, operation in rights:
            name = CLUSTER_NAME if kind is Kind.CLUSTER else "*"
            pattern = ResourcePattern(kind, AclPatternType.LITERAL, name)
            entry = AclEntry("User:ANONYMOUS", host, operation, AclPermission.ALLOW)
            entries.setdefault(pattern, set()).add(entry)
    cluster.ensemble.carry_out([Create(acls.ROOTS[AclPatternType.LITERAL])], 0)
    for pattern, found in entries.items():
        path = acls.path(pattern)
        nodes = [Create(path.rpartition("/")[0]), Create(path, acls.encode(frozenset(found)))]
        cluster.ensemble.carry_out(nodes, 0)


def main() -> int:
    """Run the seeds; the exit code is 0 if all went well, and the clients got their work done."""
    plan.SETTINGS["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
    first, count = map(int, sys.argv[1:3])
    failed = 0
    for seed in range(first, first + count):
        outcome = run_schedule(seed, plant=authorize)
        print(seed, outcome.counts, *outcome.faults, sep="\n  ")
        failed += bool(outcome.faults) or not all(outcome.counts[each] for each in WORK)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
