"""The identity of clients.

- `sasl`  names with passwords, or proofs of them
"""
