"""OAuth: tokens that an authorization server has signed, and the keys with which they are checked.

- `jwt`       reads and checks a token: its form, its signature, its claims
- `keys`      the public keys of an authorization server (JSON Web Key Set)
- `fetching`  fetches these keys, at the start and again later
- `unsecured` tokens without a signature, for tests
- `offer`     makes what checks tokens, from a listener's configuration
"""
