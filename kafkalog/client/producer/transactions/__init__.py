"""The transactions of a producer.

- `transaction_manager`   which call is allowed when, as a state machine
- `transaction_calls`     the calls themselves
"""
