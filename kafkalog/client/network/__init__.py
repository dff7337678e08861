"""What carries a client's requests.

- `connection`   one socket to one broker
- `waker`        ends a wait on sockets
- `outage`       logs once that no broker answers
"""
