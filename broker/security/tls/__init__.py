"""Certificates, and what follows from them; without connections.

- `contexts`         what one listener uses, made from its keys and checked
- `options`          the options of a listener, from the broker's configuration
- `failures`         why a handshake fails, in plain words
- `principal_rules`  who the owner of a certificate is: `ssl.principal.mapping.rules`
- `certificate`      what a certificate says
- `names`            the name in a certificate, as Java writes it
- `der`              the encoding of certificates
"""
