"""The keys of this broker's logins to other brokers by GSSAPI and OAUTHBEARER.

Names and defaults are those of Apache Kafka 3.9. Each may be set for a listener and the mechanism:
`listener.name.<listener>.<mechanism>.<key>`.
"""

from __future__ import annotations

from functools import partial

from broker.config.definition import ConfigKey, Scope, Type, at_least, between

LOGIN_HANDLER = "sasl.login.callback.handler.class"
_key = partial(ConfigKey, scope=Scope.MECHANISM, member=True)
LOGIN_KEYS = [
    _key("sasl.kerberos.service.name", Type.STRING, None, "The first part of the other brokers' principals, such as kafka, unless serviceName in sasl.jaas.config says it."),
    _key("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", "The program that renews the tickets of a cache."),
    _key("sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8, "The part of the time of a cache's ticket after which it is renewed.", between(0, 1)),
    _key("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, "The part of that time which is added at random.", between(0, 1)),
    _key("sasl.kerberos.min.time.before.relogin", Type.LONG, 60_000, "The shortest time between two attempts to renew it.", at_least(0)),
    _key(LOGIN_HANDLER, Type.CLASS, None, "The class of Java's that gets the tokens of OAUTHBEARER. Only Kafka's own are accepted: they stand for what this broker does by itself."),
    _key("sasl.oauthbearer.token.endpoint.url", Type.STRING, None, "Where this broker gets tokens: https://… of the authorization server, with clientId, clientSecret and scope in sasl.jaas.config, or file:///…."),
    _key("sasl.login.connect.timeout.ms", Type.INT, None, "How long a connection to the authorization server may take.", at_least(1)),
    _key("sasl.login.read.timeout.ms", Type.INT, None, "How long its answer may take.", at_least(1)),
    _key("sasl.login.retry.backoff.ms", Type.LONG, 100, "The pause after a first attempt that failed; it doubles with each one that follows.", at_least(1)),
    _key("sasl.login.retry.backoff.max.ms", Type.LONG, 10_000, "The time for which a request for a token is repeated.", at_least(1)),
    _key("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8, "The part of a token's time after which the next one is requested.", between(0.5, 1)),
    _key("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, "The part of that time which is added at random.", between(0, 0.25)),
    _key("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, "The shortest time for which a token is used, if it lasts long enough.", between(0, 900)),
    _key("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, "How long before its end a token is replaced at the latest.", between(0, 3600)),
]  # fmt: skip
"""The keys, in the order of the documentation."""
