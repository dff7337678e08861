"""The authentication of clients, in front of the dispatcher of their connections.

- `sasl_gate`        authenticates the client of one connection by SASL
- `unauthenticated`  how long clients may take for that, and how many connections may wait
- `counts`           counts of successes and failures
"""
