"""Parts of the commands that use a cluster: options that become client properties, and error messages."""

from __future__ import annotations

import argparse
import codecs
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.cli.shared.actions import action_parser
from kafkalog.java_numbers import parse_integer

if TYPE_CHECKING:
    from kafkalog.client.config import ClientConfig
    from kafkalog.zookeeper.security import Security

Run = Callable[[argparse.Namespace], int]

USAGE = 2


class UsageError(ValueError):
    """Options that cannot be used, or not together; the message says what to change."""


def add_bootstrap(parser: argparse.ArgumentParser, *, zookeeper: str | None = None) -> None:
    """Add `--bootstrap-server`; with the help of `--zookeeper`, one of the two must be given."""
    where = parser if zookeeper is None else parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--bootstrap-server", required=zookeeper is None, metavar="HOST:PORT[,…]", help="brokers to connect to first"
    )
    if zookeeper is not None:
        where.add_argument("--zookeeper", metavar="HOST:PORT[,…][/CHROOT]", help=zookeeper)
        add_zookeeper_security(parser)


def add_zookeeper_security(parser: argparse.ArgumentParser) -> None:
    """Add `--zk-tls-config-file`, which Kafka's tools have."""
    parser.add_argument(
        "--zk-tls-config-file",
        metavar="FILE",
        help="a file of properties that secure the session with ZooKeeper: zookeeper.ssl.client.enable, …",
    )


FIND_BROKERS = "find the brokers in this ZooKeeper, as tools of Kafka 0.8 did"


def add_action(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    purpose: str,
    epilog: str,
    *,
    zookeeper: str | None = None,
) -> argparse.ArgumentParser:
    """Add an administrator's command, with the options that name the cluster; `epilog` is printed unchanged.

    `zookeeper` is the help of `--zookeeper`, where the command has that option.
    """
    parser = action_parser(commands, name, purpose, epilog)
    add_bootstrap(parser, zookeeper=zookeeper)
    parser.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    parser.add_argument(
        "--timeout", type=positive, metavar="MS", help="ms to keep trying while brokers do not answer (default: 60000)"
    )
    return parser


def add_repeated(
    parser: argparse._ActionsContainer,
    *options: str,
    metavar: str,
    purpose: str,
    kind: Callable[[str], Any] = str,
    required: bool = False,
) -> None:
    """Add an option that may be given several times; its value is a list.

    Args:
        parser: The command, or a group of its options.
        options: The option and its other names.
        metavar: Stands for the value in the help.
        purpose: The help, which goes on to say that the option may be repeated.
        kind: Parses a value.
        required: Whether the option must be given.
    """
    parser.add_argument(
        *options,
        action="append",
        default=[],
        type=kind,
        required=required,
        metavar=metavar,
        help=f"{purpose}; may be repeated",
    )


def examples_of(examples: str, command: str) -> str:
    """Return the lines of `examples` that use a command, under a heading."""
    return "\n".join(["examples:", *(line for line in examples.splitlines() if f" {command} " in line)])


def aligned(rows: Sequence[Sequence[str]], least: Sequence[int], gap: str) -> Iterator[str]:
    """Yield the lines of a table: each column has the width of its longest value, and at least `least`.

    The last column is not padded.
    """
    widths = [max(width, *(len(row[number]) for row in rows)) for number, width in enumerate(least)]
    for row in rows:
        yield gap.join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def key_values(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Parse the properties of KEY=VALUE words.

    Raises:
        UsageError: A word is not of the form KEY=VALUE. The text names the `option` that the word belongs to, and not
            the word.
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            # The word may be a password.
            raise UsageError(f"{option}: expected KEY=VALUE")
        found[key.strip()] = value
    return found


def client_properties(
    arguments: argparse.Namespace, file: str | None, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return client properties: those of `file`, then `more`, then `--bootstrap-server`.

    Where `--zookeeper` is given instead, the brokers are looked up there.

    Raises:
        UsageError: The file cannot be read.
        ZooKeeperError: ZooKeeper does not answer, or names no broker that can be used.
    """
    found = {**file_properties(file), **(more or {})}
    found["bootstrap.servers"] = arguments.bootstrap_server
    if arguments.bootstrap_server is None:
        found["bootstrap.servers"] = brokers_in_zookeeper(arguments, found)
    elif getattr(arguments, "zk_tls_config_file", None) is not None:
        raise UsageError("--zk-tls-config-file needs --zookeeper")
    return found


def brokers_in_zookeeper(arguments: argparse.Namespace, properties: Mapping[str, str]) -> str:
    """Return `bootstrap.servers` of the brokers that the ZooKeeper of `--zookeeper` knows.

    Raises:
        UsageError, ConfigError: The file of `--zk-tls-config-file` cannot be read or used.
        ZooKeeperError: ZooKeeper does not answer, or names no broker that can be used.
    """
    from kafkalog.client.zookeeper.brokers import find_brokers

    protocol = properties.get("security.protocol", "PLAINTEXT")
    return find_brokers(arguments.zookeeper, protocol, zookeeper_security(arguments))


def zookeeper_properties(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the properties of `--zk-tls-config-file` that secure a session with ZooKeeper.

    Others are left out, as Kafka's tools do. A warning names those that may be misspelt.

    Raises:
        UsageError: The file cannot be read.
    """
    from kafkalog.client.properties.options import declared
    from kafkalog.client.zookeeper.security import SecurityOptions

    known = declared(SecurityOptions)
    properties = file_properties(arguments.zk_tls_config_file)
    warn_unknown(key for key in properties.keys() - known.keys() if key.startswith("zookeeper.ssl."))
    return {key: value for key, value in properties.items() if key in known}


def zookeeper_security(arguments: argparse.Namespace) -> Security:
    """Return what secures the session with ZooKeeper, by `--zk-tls-config-file`.

    Raises:
        UsageError: The file cannot be read.
        ConfigError: A property cannot have its value, or a store cannot be read.
    """
    from kafkalog.client.zookeeper.security import read_security

    options, _ = read_security(zookeeper_properties(arguments))
    return options.security()


def file_properties(file: str | None) -> dict[str, str]:
    """Return the properties of a file; none without a file.

    Raises:
        UsageError: The file cannot be read.
    """
    from kafkalog.java_properties import PropertiesError, load_properties

    if file is None:
        return {}
    try:
        return dict(load_properties(Path(file)))
    except PropertiesError as error:
        raise UsageError(str(error)) from error


def admin_config(arguments: argparse.Namespace) -> ClientConfig:
    """Return the configuration that the options of `add_action` describe.

    Raises:
        UsageError: The configuration file cannot be read.
        ConfigError: A property cannot have its value.
    """
    from kafkalog.client.config import ClientConfig

    more = {} if arguments.timeout is None else {"default.api.timeout.ms": str(arguments.timeout)}
    config = ClientConfig.from_dict(client_properties(arguments, arguments.command_config, more))
    warn_unknown(config.unknown)
    return config


def warn_unknown(unknown: Iterable[str]) -> None:
    """Warn of properties without effect: in one line of those of other clients, and of each that may be misspelt."""
    from kafkalog.client.properties.foreign import warnings_about

    for text in warnings_about(set(unknown) - _CLASSES):
        complain(text)


_CLASSES = frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"})
"""Java's class names, which every properties file for its clients has; nothing is said about them."""


def complain(message: object) -> None:
    """Print a message to standard error, under the program's name."""
    print(f"kafkalog: {message}", file=sys.stderr)


def complain_of(error: Exception) -> None:
    """Print an error of a cluster. For an unknown topic, also name the command that shows the known ones."""
    from kafkalog.protocol.errors import KafkaError, UnknownTopicOrPartitionError

    if isinstance(error, UnknownTopicOrPartitionError):
        complain(f"{error.message}; `kafkalog topics describe` lists the topics and their partitions")
    else:
        complain(error.message if isinstance(error, KafkaError) else error)


def print_json(row: Mapping[str, Any]) -> None:
    """Print one line of JSON, with escapes of JSON for what the encoding of standard output may not have."""
    has_all = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(json.dumps(row, separators=(",", ":"), ensure_ascii=not has_all))


def reporting(run: Run) -> Run:
    """Print a command's expected errors as one line: exit code 2 for options and properties, 1 for the others.

    The client's warnings are printed as well while the command runs.
    """

    @functools.wraps(run)
    def reported(arguments: argparse.Namespace) -> int:
        from kafkalog.cli.shared.client_log import client_log
        from kafkalog.client.errors import ClientError, ConfigError
        from kafkalog.protocol.errors import KafkaError
        from kafkalog.protocol.primitives import EncodeError
        from kafkalog.records.errors import RecordsError

        try:
            with client_log(complain):
                return run(arguments)
        except (UsageError, ConfigError) as error:
            complain(error)
            return USAGE
        except (EncodeError, UnicodeEncodeError) as error:
            complain(f"an option or a file has {_unsendable(error)}")
            return USAGE
        except (ClientError, KafkaError, RecordsError) as error:
            complain_of(error)
        return 1

    return reported


def _unsendable(error: Exception) -> str:
    """Tell which value no request can hold."""
    cause = error if isinstance(error, UnicodeEncodeError) else error.__cause__
    if isinstance(cause, UnicodeEncodeError):
        return f"the text {cause.object[:80]!r}, which is not UTF-8"
    return f"a value that no request can hold: {error}"


def integer(low: int, bits: int = 64) -> Callable[[str], int]:
    """Return a parser of arguments that are integers from `low` on, and that a signed field of `bits` can hold."""
    high = (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        value = parse_integer(text)
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no integer from {low} to {high}")
        return value

    return parse


positive, natural, whole = integer(1), integer(0), integer(-(1 << 63))


def sendable(text: str) -> str:
    """Parse a name that requests carry.

    Raises:
        ArgumentTypeError: It is not UTF-8, or longer than the string of a request may be.
    """
    from kafkalog.protocol.primitives import MAX_STRING

    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8") from None
    if size > MAX_STRING:
        raise argparse.ArgumentTypeError(f"a name of {size} bytes is too long: it may have {MAX_STRING}")
    return text
