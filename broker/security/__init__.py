"""Security of listeners: who may speak with the broker, and how.

- `tokens` delegation tokens
- `sasl`  names with passwords, or proofs of them
- `tls`   certificates, and the names in them
"""
