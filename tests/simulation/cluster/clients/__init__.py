"""Clients of the simulated cluster.

- `client`   what all clients have: links, and who leads what
- `producers`, `transactions`, `consumers`, `administrator`  the clients
- `history`  what they did and were told
"""
