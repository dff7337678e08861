"""What secures a client's connections, from the client's properties. SASL's messages are in `protocol.wire.sasl`.

- `tls`          TLS contexts; their properties are `tls_options`
- `jaas`         the text of `sasl.jaas.config`
- `mechanisms`   SASL mechanisms by name
- `passwords`    the mechanisms that need a password: PLAIN and SCRAM
- `oauth`        the mechanism OAUTHBEARER, and where its tokens come from
"""
