"""The resources that connections and links take from the system.

- `network`      opens connections and binds listeners
- `listener`     a listening socket and the connections it accepts
- `addresses`    the addresses of peers
- `host_lookup`  finds the addresses of hosts
- `free_ports`   free ports, for servers that start later
- `event_loop`   what connections need of an event loop
"""
