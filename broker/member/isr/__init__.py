"""How a change of an ISR that a leader here proposes is decided.

- `alter_isr`  has the controller change an ISR (AlterPartition)
- `isr_nodes`  changes an ISR in ZooKeeper, as before 2.7
"""
