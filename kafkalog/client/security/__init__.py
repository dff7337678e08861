"""What secures a client's connections, from the client's properties. SASL's mechanisms are in `protocol.wire.sasl`.

- `tls`          TLS contexts
"""
