"""Exactly once: each micro-batch's rows are committed once, whatever process dies (`kafka.transactional.id`).

Spark's sink interface has no place for a transaction that spans tasks, and a Kafka transaction belongs to one producer.
So each task writes in a transaction of its own, leaves it open, and reports it to the driver. The driver first
*decides*, by writing the list of transactions into a ledger in one step. Then it commits them one after the other.
After a crash, the next driver reads the ledger: it commits what was decided and aborts everything else.

- `commit_driver`        claims a micro-batch before its tasks begin; decides and commits after them, or aborts
- `claim`                what driver and tasks tell each other
- `task_attempt`         one attempt of a task: writes rows in a transaction that stays open
- `transaction_ends`     commits, aborts and finds transactions that tasks left open
- `ledger`               stores the ledger: offsets of a consumer group, written in transactions of the driver's
- `ledger_record`        the contents of the ledger and their text form: pure
- `transactional_ids`    transactional ids of one Python worker
- `transaction_options`  settings of the transactional mode
- `errors`               errors of the transactional mode, with remedies

The argument, in short. Claims are numbered. Each is written to the ledger under a producer epoch that fences every
other driver. Only the claim that the ledger names can be decided, and only once. A claim is written after everything
that was decided before has been committed. So while tasks of a claim run, transactions that earlier claims left open
can never be decided any more, and may be aborted. One Python worker alone uses a transactional id, and uses it once in
a claim. So no other producer can take the id and thereby abort a decided transaction.
"""
