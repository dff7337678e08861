"""Hosts on simulated time, and the brokers on them.

- `world`    simulated time, and an event loop for each process, which can be frozen or killed
- `disk`     files that lose what was not synced when the power fails
- `workers`  workers of a process
- `machine`  a host with a disk, the processes of a broker on it, and its session with ZooKeeper
"""
