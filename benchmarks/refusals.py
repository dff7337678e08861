"""The time until clients report what refuses them, at Apache Kafka with TLS, SASL and ACLs.

Run from the repository: `python -m benchmarks.refusals [--quick] [--version 3.9.2]`.

Each client has its default time-outs, and meets each refusal several times. The clients are an administrator, a
producer, and consumers: members of a classic group and of one of the new protocol (KIP-848), and one without a group.
A time begins before the client is made, and ends when its error has left the `with` block, so that it includes the
client's end. The broker itself holds back the answer to a wrong password or token for a while
(`connection.failed.authentication.delay.ms`, 100 by default).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import report
from benchmarks.peers.brokers import stop_when_told
from benchmarks.recording.findings import LOWER, Finding, rounded
from kafkalog.client.admin import AclOperation, AclResourceType
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from peers.brokers.kafka import KAFKA_3, KAFKA_4, VERSIONS
from peers.brokers.secured_kafka import ALICE, BOB, PASSWORD_MECHANISMS, SecuredKafka, missing
from tests.support.secured.acls import allow
from tests.support.secured.uses import MEMBERS, USES, describe, new_topic, produce
from tests.support.secured.ways import by_password, listening

RUNS, QUICK_RUNS = 5, 1
NO_TOPIC, NO_GROUP = "no right to the topic", "no right to the group"
ERRORS = {NO_TOPIC: TopicAuthorizationFailedError, NO_GROUP: GroupAuthorizationFailedError}
"""The error of each missing right; all other refusals are those of a login."""

Times = dict[str, dict[str, list[float]]]
"""Seconds of each run, by refusal and kind of client."""


def guessed(mechanism: str) -> Callable[[SecuredKafka], dict[str, Any]]:
    """Return what makes the properties of a client with a wrong password."""
    return lambda secured: by_password(secured, mechanism) | {"sasl.password": "guessed"}


def with_token(secured: SecuredKafka, token: str) -> dict[str, Any]:
    """Return the properties of a client that takes a token to be valid for an hour."""
    login: dict[str, Any] = listening(secured, "OAUTH", sasl_mechanism="OAUTHBEARER")
    return login | {"oauth_cb": lambda _: (token, time.time() + 3600)}


REFUSALS: dict[str, Callable[[SecuredKafka], dict[str, Any]]] = {
    **{f"a wrong password, {mechanism}": guessed(mechanism) for mechanism in PASSWORD_MECHANISMS},
    "a token that has expired": lambda secured: with_token(secured, secured.signing_key.token(ALICE, -100)),
    "a token for another service": lambda secured: with_token(secured, secured.signing_key.token(ALICE, aud="another")),
    "an unknown authority": lambda secured: listening(secured, "SSL", ssl_ca_location=secured.certificates.stranger),
    "an expired certificate": lambda secured: listening(secured, "EXPIRED"),
    "a certificate for another name": lambda secured: listening(secured, "ELSEWHERE"),
    "no certificate of the client": lambda secured: listening(secured, "MTLS"),
    NO_TOPIC: lambda secured: by_password(secured, "SCRAM-SHA-256", BOB),
    NO_GROUP: lambda secured: by_password(secured, "SCRAM-SHA-256", BOB),
}
"""The functions that make the properties of a client that is refused, by the reason."""


def uses_of(refusal: str, version: str) -> list[str]:
    """Return the kinds of clients that meet a refusal."""
    # An administrator that describes a topic may not know it. Apache Kafka 3.9 serves no groups of the new protocol.
    left_out = {"admin"} if refusal == NO_TOPIC else set()
    left_out |= {"consumer protocol"} if version == KAFKA_3 else set()
    return [use for use in (MEMBERS if refusal == NO_GROUP else USES) if use not in left_out]


def refused_after(refusal: str, use: str, secured: SecuredKafka, topic: str) -> float:
    """Return the seconds until a client of some kind has reported a refusal.

    Raises:
        RuntimeError: The client was not refused.
    """
    config = REFUSALS[refusal](secured)
    began = time.perf_counter()
    try:
        USES[use](config, topic)
    except ERRORS.get(refusal, AuthenticationError):
        return time.perf_counter() - began
    raise RuntimeError(f"{refusal}: the use {use!r} was not refused")


def warm_up(secured: SecuredKafka) -> None:
    """Use a client of each kind, because the first one of a process takes longer."""
    config = listening(secured, "SSL")
    for use in uses_of(NO_GROUP, secured.version):
        topic = new_topic(secured)
        produce(config, topic)
        describe(config, topic)
        USES[use](config, topic)


def measure(secured: SecuredKafka, runs: int) -> Times:
    """Measure every refusal of every kind of client."""
    warm_up(secured)
    of_topic, of_group = new_topic(secured), new_topic(secured)
    allow(secured, BOB, AclOperation.READ, AclResourceType.GROUP, of_topic)
    allow(secured, BOB, AclOperation.READ, AclResourceType.TOPIC, of_group)
    times: Times = {refusal: defaultdict(list) for refusal in REFUSALS}
    for _ in range(runs):
        for refusal, by_use in times.items():
            topic = of_group if refusal == NO_GROUP else of_topic
            for use in uses_of(refusal, secured.version):
                by_use[use].append(refused_after(refusal, use, secured, topic))
            print(f"{time.strftime('%X')} {refusal}", file=sys.stderr, flush=True)
    return times


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="how often each refusal is met (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one run")
    parser.add_argument("--version", choices=VERSIONS, default=KAFKA_4, help="of Apache Kafka (default: %(default)s)")
    options = parser.parse_args(words)
    if options.quick:
        options.runs = QUICK_RUNS
    return options


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table in milliseconds; return the results."""
    stop_when_told()
    options = arguments(words)
    reason = missing(options.version)
    if reason is not None:
        sys.exit(reason)
    with (
        tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as directory,
        SecuredKafka(options.version, Path(directory) / "secured") as secured,
    ):
        times = measure(secured, options.runs)
    rows = [
        [refusal, *(f"{report.median(by_use[use]) * 1000:,.0f}" if use in by_use else "–" for use in USES)]
        for refusal, by_use in times.items()
    ]
    print(report.table(["refusal, ms", *USES], rows))
    return findings(times)


def findings(times: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Finding]:
    """Turn what was measured into results: for each refusal, the range over the kinds of clients."""
    found = []
    for refusal, by_use in times.items():
        medians = [rounded(report.median(seconds) * 1000) for seconds in by_use.values()]
        runs = min(len(seconds) for seconds in by_use.values())
        figure = [min(medians), max(medians)]
        found.append(Finding(name=refusal, unit="ms", better=LOWER, ours=figure, runs=runs))
    return found


if __name__ == "__main__":
    main()
