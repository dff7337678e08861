"""The idempotent and transactional producers of a partition (KIP-98).

- `producer_state_manager`  sequence numbers, epochs and open transactions of all producers
- `producer_entry`          the state of one producer id
- `producer_expiry`         forgetting silent producers, in turns
- `producer_snapshots`      reading and writing `.snapshot` files
- `control_batches`         transaction markers in control batches
"""
