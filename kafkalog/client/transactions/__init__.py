"""Transactions, as their producers see them.

- `requests`   the requests of a transaction, and `end_transaction` for one that another process began
- `errors`     what is left to do when one fails
"""
