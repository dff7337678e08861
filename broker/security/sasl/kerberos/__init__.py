"""Kerberos: tickets for the broker, and the users that they stand for.

- `names`    names of Kerberos, and `sasl.kerberos.principal.to.local.rules`
- `library`  security contexts of the system's library
- `offer`    makes the mechanism of a listener from its configuration
"""
