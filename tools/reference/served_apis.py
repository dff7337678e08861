"""The APIs that the broker serves, with their versions, from its registry of handlers."""

from __future__ import annotations

from broker.api.registry import served_apis

_HEAD = """# APIs

Made by `python -m tools.reference` from the broker's registry of handlers.

A client learns these APIs and versions from the broker's answer to ApiVersions. The broker closes the connection of a
client that sends another API, or another version of one of these, as Apache Kafka does. ApiVersions is the exception:
its newer versions get the error UNSUPPORTED_VERSION, with this list.

Those between brokers are served by a member of a cluster (`zookeeper.connect`), on the listener of
`inter.broker.listener.name`.

Without an authorizer DescribeAcls, CreateAcls and DeleteAcls answer SECURITY_DISABLED. The fields of each
API are in `kafkalog/protocol/messages`. [What is supported](supported.md) describes the areas.

| key | API | versions |
|--:|--|--|
"""


def render() -> str:
    """Return the page as Markdown."""
    rows = []
    for key, api in served_apis().items():
        name = api.request_type.__name__.removesuffix("Request")
        low, high = api.min_version, api.max_version
        between = " (between brokers)" if api.members_only else ""
        rows.append(f"| {key} | {name}{between} | {f'{low}–{high}' if high > low else low} |")
    return _HEAD + "\n".join(rows) + "\n"
