"""`kafkalog delegation-tokens`: make, list, renew and end delegation tokens, as kafka-delegation-tokens.sh does."""

from __future__ import annotations

import argparse
import sys
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    aligned,
    examples_of,
    print_json,
    reporting,
    whole,
)

if TYPE_CHECKING:
    from kafkalog.client.admin.security.delegation_tokens import DelegationToken, DelegationTokenAdmin, Principal

EXAMPLES = """\
examples:
  kafkalog delegation-tokens create --bootstrap-server kafka:9093 --command-config admin.properties --json
  kafkalog delegation-tokens describe --bootstrap-server kafka:9093 --command-config admin.properties
  kafkalog delegation-tokens renew --bootstrap-server kafka:9093 --command-config admin.properties --hmac - < hmac
  kafkalog delegation-tokens expire --bootstrap-server kafka:9093 --command-config admin.properties --hmac - < hmac
"""
_HEADS = ("TokenId", "Owner", "Requester", "Renewers", "IssueDate", "ExpiryDate", "MaxDate")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `delegation-tokens` and its commands."""
    commands = add_command(
        subparsers, "delegation-tokens", "create, describe, renew and expire delegation tokens", EXAMPLES
    )
    create = _add(commands, "create", "create a token, and print it with its secret HMAC", run_create)
    owner = "the token's owner (default: the user who creates it)"
    create.add_argument("--owner-principal", action="append", default=[], metavar="TYPE:NAME", help=owner)
    renewer = "another user who may renew it"
    add_repeated(create, "--renewer-principal", metavar="TYPE:NAME", purpose=renewer)
    _add_period(create, "--max-life-time-period", "the longest life, with all renewals")
    create.add_argument("--json", action="store_true", help="one object in place of lines")
    describe = _add(commands, "describe", "list the tokens that the user may see, without their HMACs", run_describe)
    add_repeated(describe, "--owner-principal", metavar="TYPE:NAME", purpose="only the tokens of this owner")
    describe.add_argument("--json", action="store_true", help="one object a line, in place of the table")
    renew = _add(commands, "renew", "extend the life of a token", run_renew)
    _add_hmac(renew)
    _add_period(renew, "--renew-time-period", "the new life from now on")
    expire = _add(commands, "expire", "end a token, now or at another time", run_expire)
    _add_hmac(expire)
    expire.add_argument(
        "--expiry-time-period",
        type=whole,
        default=-1,
        metavar="MS",
        help="the rest of its life; negative to end it at once (default: %(default)s)",
    )


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, run: Any
) -> argparse.ArgumentParser:
    parser = add_action(commands, name, purpose, examples_of(EXAMPLES, f"delegation-tokens {name}"))
    parser.set_defaults(run=run)
    return parser


def _add_period(parser: argparse.ArgumentParser, option: str, purpose: str) -> None:
    parser.add_argument(
        option,
        type=whole,
        default=-1,
        metavar="MS",
        help=f"{purpose}; -1 for what the broker allows (default)",
    )


def _add_hmac(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hmac",
        required=True,
        metavar="HMAC",
        help="the token's HMAC in Base64; - reads it from standard input, so that no list of processes shows it",
    )


def _admin(arguments: argparse.Namespace) -> DelegationTokenAdmin:
    from kafkalog.client.admin.security.delegation_tokens import DelegationTokenAdmin

    return DelegationTokenAdmin(admin_config(arguments))


def _principals(option: str, texts: Sequence[str]) -> list[Principal]:
    from kafkalog.client.admin.security.delegation_tokens import Principal

    try:
        return [Principal.parse(text) for text in texts]
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _hmac(arguments: argparse.Namespace) -> bytes:
    text = sys.stdin.readline().strip() if arguments.hmac == "-" else arguments.hmac
    try:
        hmac = b64decode(text, validate=True)
    except ValueError:
        hmac = b""
    if not hmac:
        raise UsageError("--hmac: expected the HMAC in Base64, as `delegation-tokens create` has printed it")
    return hmac


@reporting
def run_create(arguments: argparse.Namespace) -> int:
    """Create a token and print it."""
    owners = _principals("--owner-principal", arguments.owner_principal)
    if len(owners) > 1:
        raise UsageError("--owner-principal: a token has one owner")
    renewers = _principals("--renewer-principal", arguments.renewer_principal)
    with _admin(arguments) as admin:
        token = admin.create(
            owner=owners[0] if owners else None,
            renewers=renewers,
            max_lifetime_ms=arguments.max_life_time_period,
        )
    if arguments.json:
        print_json(_row(token) | {"hmac": token.password, "jaas": token.jaas})
        return 0
    for head, value in zip(_HEADS, _cells(token), strict=True):
        print(f"{head}: {value}")
    print(f"HMAC: {token.password}")
    return 0


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print a row for each token."""
    owners = _principals("--owner-principal", arguments.owner_principal)
    with _admin(arguments) as admin:
        found = admin.describe(owners or None)
    if arguments.json:
        for token in found:
            print_json(_row(token))
        return 0
    for line in aligned([_HEADS, *map(_cells, found)], [0] * len(_HEADS), "  "):
        print(line)
    return 0


@reporting
def run_renew(arguments: argparse.Namespace) -> int:
    """Renew a token and print when it ends."""
    hmac = _hmac(arguments)
    with _admin(arguments) as admin:
        print(f"The token expires at {_date(admin.renew(hmac, arguments.renew_time_period))}.")
    return 0


@reporting
def run_expire(arguments: argparse.Namespace) -> int:
    """Let a token end and print when."""
    hmac = _hmac(arguments)
    with _admin(arguments) as admin:
        print(f"The token expires at {_date(admin.expire(hmac, arguments.expiry_time_period))}.")
    return 0


def _row(token: DelegationToken) -> dict[str, Any]:
    return {
        "tokenId": token.token_id,
        "owner": str(token.owner),
        "requester": None if token.requester is None else str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issuedAt": token.issued_at,
        "expiresAt": token.expires_at,
        "maxTimestamp": token.max_timestamp,
    }


def _cells(token: DelegationToken) -> tuple[str, ...]:
    return (
        token.token_id,
        str(token.owner),
        str(token.requester or ""),
        ",".join(map(str, token.renewers)),
        *(_date(time) for time in (token.issued_at, token.expires_at, token.max_timestamp)),
    )


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
