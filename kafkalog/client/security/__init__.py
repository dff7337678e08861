"""What secures a client's connections, from the client's properties. SASL's messages are in `protocol.wire.sasl`.

- `tls`          TLS contexts
- `mechanisms`   SASL mechanisms by name
- `passwords`    the mechanisms that need a password: PLAIN and SCRAM
"""
