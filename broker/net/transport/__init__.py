"""How a connection's bytes are received and sent.

- `interface` the methods that reader and writer call
- `plain`      a TCP socket; slices of files go out by `sendfile`
"""
