"""The credentials that clients show and servers check, made as an operator would make them.

- `certificates`  an authority and its certificates
- `stores`        stores of certificates, by Java's keytool
- `tokens`        bearer tokens
- `kerberos`      a key distribution centre (KDC)
"""
