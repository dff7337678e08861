"""Brokers in one process, with time and a network that a seed decides.

- `virtual_time`  an event loop whose clock skips to the next thing that happens
- `workers`       workers that take some virtual time, in an order of chance
- `network`       connections between named hosts, with delays and partial sends
- `host`          a broker on such a host
- `obedient_broker`  a broker without logs, which carries out what a controller tells it
"""
