"""Links: connections to other brokers.

- `link`          sends requests to one broker, and reconnects after failures
- `link_channel`  one connection of a link
- `link_errors`   the ways a request over a link can fail
"""
