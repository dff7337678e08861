"""Exactly once: the rows of each micro-batch are committed once, whatever dies (``kafka.transactional.id``).

Spark's sink interface has no place for a transaction that spans tasks, and a Kafka transaction belongs to one producer.
So each task writes in a transaction of its own, leaves it open, and tells the driver which one it is; the driver first
*decides*, by writing the list of them into a ledger in one step, then commits one after the other. Who comes after a
crash reads the ledger: what was decided is committed, all else is aborted.

- `record`     what the ledger says, and its text: pure
- `ledger`     where it is kept: offsets of a consumer group, written in transactions of the driver's
- `claim`      what driver and tasks tell each other
- `driver`     claims a micro-batch before its tasks begin, decides and commits after them, or aborts
- `ending`     transactions of tasks: committed, aborted; those that were left open, found
- `names`      transactional ids of one Python worker
- `attempt`    one attempt of a task: rows into a transaction that stays open
- `errors`     what a user has to know
- ``options``  settings of the transactional mode

The argument, in short. Claims are numbered, and each is written to the ledger under a producer epoch that fences every
other driver; only the claim that the ledger names can be decided, once. A claim is written when all that was decided
before is committed. So when tasks of a claim run, whatever earlier claims left open can never be decided any more, and
may be aborted. A transactional id is used by one Python worker alone, once in a claim, so that nobody else's producer
can take it and thereby abort what was decided.
"""
