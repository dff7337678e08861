"""The connections that carry a client's requests.

- `connection`   requests to one broker and their responses; `transport` is its socket, `authentication` its handshakes
- `slot`         a connection that several threads share
- `at_once`      asks several brokers at once
- `waker`        ends a wait on sockets
- `outage`       logs once that no broker answers
- `diagnosis`    why a listener does not take a connection; `refusals` are the texts, `probe` asks the listener
"""
