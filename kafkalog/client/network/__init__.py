"""What carries a client's requests.

- `connection`   one socket to one broker
- `waker`        ends a wait on sockets
- `outage`       logs once that no broker answers
- `diagnosis`    why a listener does not take a connection; `refusals` are the texts, `probe` asks the listener
"""
