"""A cluster of real brokers on simulated time, with clients and faults by a seed, and checks of what must hold.

- `hosts/`         hosts with disks, on simulated time, and the brokers on them
- `clients/`       clients, and the history of what they did and were told
- `checks/`        what must hold
- `faults`         what goes wrong, and the end of it
- `plan`           what a seed decides before the start
- `schedule`       one run of all of that; `running` gives it a process of its own
- `planted`        defects that a run must find
- `authorized`     runs in which nobody has more rights than needed

A seed gives the same run in every process. `python -m tests.simulation.cluster.schedule SEED` runs it again; `--log`
prints the brokers' logs. The network and ZooKeeper are those of `tests.simulation`.

These invariants are checked. They are named in the messages:

- I1  an acknowledged record (acks=all) stays, unless its promise has ended (`checks.invariants.Forgotten`)
- I2  logs agree up to what is committed; batches of one offset and epoch have the same bytes
- I3  each epoch of a partition has one leader, and epochs only grow
- I4  high watermarks do not go back within an epoch; what consumers have read stays
- I5  the ISR is not empty, its leader is in it, and only replicas join it
- I6  each member of the ISR has all that is committed
- I7  elections name the epoch of the controller, which only grows
- I8  without faults the cluster comes to rest: leaders, full ISRs, no deletions or moves left; each client gets on
- I9  committed offsets do not go back; transactions are seen whole or not at all, and none stays open
- I10 a leader commits nothing while its ISR is smaller than `min.insync.replicas`
"""
