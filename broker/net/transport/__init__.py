"""The transports of a connection: they receive and send its bytes.

- `interface` the methods that reader and writer call
- `plain`      a TCP socket; slices of files go out by `sendfile`
"""
