"""Logins by OAuth 2: the mechanism OAUTHBEARER, and where its tokens come from.

- `options`      the properties `sasl.login.…` and `sasl.oauthbearer.…`
- `factory`      makes the mechanisms of a client's connections
- `login`        keeps a token, and gets the next one in time; one login serves the whole process
- `sources`      chooses the source of tokens: endpoint, file, text, provider, or none signed at all
- `token`        a token, and what a JWT says about itself
- `endpoint`     requests to a token endpoint; `http` sends them
- `assertion`    signs the assertions that some endpoints want (RFC 7523)
- `providers`    tokens from a class or a function of the user's
- `unsecured`    tokens without a signature, for test clusters
"""
