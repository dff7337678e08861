"""Every foreign client by name."""

from __future__ import annotations

from peers.clients.aio import AioKafkaClient
from peers.clients.base import ForeignClient
from peers.clients.confluent import ConfluentClient
from peers.clients.kafka_py import KafkaPythonClient
from peers.clients.kcat_client import KcatClient
from peers.clients.lines import FranzGoClient, Java3Client, JavaClient, KafkaJsClient

# The `dev` extra installs these, so they are always available.
LIBRARIES: dict[str, type[ForeignClient]] = {
    client.name: client for client in (ConfluentClient, KafkaPythonClient, AioKafkaClient)
}
# These need a program beside Python.
PROGRAMS: dict[str, type[ForeignClient]] = {
    client.name: client for client in (JavaClient, Java3Client, KafkaJsClient, FranzGoClient, KcatClient)
}
CLIENTS = {**LIBRARIES, **PROGRAMS}
