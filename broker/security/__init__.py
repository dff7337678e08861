"""Security: who may speak with the broker, how, and what they may do.

- `authorizer` access control entries, and what they decide
- `tokens` delegation tokens
- `sasl`  names with passwords, or proofs of them
- `tls`   certificates, and the names in them
"""
