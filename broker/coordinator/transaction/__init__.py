"""Transactions (KIP-98, KIP-360, KIP-447, KIP-664, and the verification of KIP-890).

- ``records``                 what ``__transaction_state`` holds, in Kafka's bytes
- ``machine``                 one transactional id: which state follows which, and what is refused (pure)
- ``partition_transactions``  the transactional ids of one partition of ``__transaction_state`` (pure)
- ``markers``                 control batches that end a transaction in the partitions it wrote to
- ``completion``              has the markers of a decided transaction written, and stores that they are
- ``coordinator``             loads partitions, stores their changes, looks for time-outs
- ``admission``               whether a transactional append is covered by its transaction
- ``service``                 coordinator, markers and checks, put together
- ``settings``                the coordinator's settings, as values
"""
