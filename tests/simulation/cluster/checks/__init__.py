"""Checks of the simulated cluster.

- `logs`        what the replicas' logs hold
- `states`      changes of partitions in ZooKeeper, looked at one by one
- `invariants`  what holds at any time, and what was promised
- `verdict`     what holds once everything works again
- `unexpected`  errors of the product that nobody has foreseen
"""
