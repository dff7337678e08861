"""`kafkalog log tail`: the last records of a partition's files, and those that come."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from broker.cli.log.common import add_command, reporting
from kafkalog.cli.shared.client_options import add_repeated, key_values, natural, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.log.tools.tail import Batch
    from kafkalog.records.batch import Record

EXAMPLES = """\
examples:
  kafkalog log tail data/words-0
  kafkalog log tail -n 0 -f data/words-0
  kafkalog log tail -n 3 --property print.key=true --property print.offset=true data/words-0
  kafkalog log tail -f --json data/words-0 | jq .value

properties of the output (--property KEY=VALUE), as those of `kafkalog consume`:
  print.timestamp=false  print.partition=false  print.offset=false  print.headers=false  print.key=false
  print.value=true       key.separator=TAB      line.separator=NEWLINE  headers.separator=,  null.literal=null

Reads the files and asks no broker: whatever is in the log is printed, also what is not committed or was aborted.
With -f it goes on in new segments, and waits for the rest of a batch that is not complete yet.
"""
PAUSE_S = 0.1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `tail`."""
    parser = add_command(
        commands,
        "tail",
        "print the last records of a partition, and follow it",
        "Print the end of a partition's log.",
        EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a partition's directory, or a .log file of one")
    parser.add_argument(
        "-n", "--records", type=natural, default=10, metavar="N", help="begin with the last N records (default: 10)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing records as they are written")
    add_repeated(parser, "--property", metavar="KEY=VALUE", purpose="how records are printed, see below")
    parser.add_argument("--json", action="store_true", help="one object a record")
    parser.set_defaults(run=run_tail)


@reporting
def run_tail(arguments: argparse.Namespace) -> int:
    """Print until the end, or for ever."""
    from broker.log.tools.tail import Tail, follow, last_records
    from broker.log.tools.targets import NotALogError
    from kafkalog.cli.shared.formatter import Formatter
    from kafkalog.records.batch import MAGIC
    from kafkalog.storage import names

    if not os.path.exists(arguments.path):
        raise NotALogError(f"{arguments.path}: No such file or directory")
    formatter = Formatter.from_properties(key_values(arguments.property, "--property"))
    directory = arguments.path if os.path.isdir(arguments.path) else os.path.dirname(os.path.abspath(arguments.path))
    topic, partition = names.parse_partition_dir(os.path.basename(os.path.abspath(directory))) or ("", -1)
    output = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115

    def show(records: Iterable[tuple[Batch, Record]]) -> None:
        from broker.log.tools.dump_json import record_row
        from kafkalog.client.types import ConsumerRecord

        if arguments.json:
            for _, record in records:
                print_json(record_row(record))
            sys.stdout.flush()
            return
        formatter.write(
            [
                ConsumerRecord(
                    topic, partition, r.offset, r.timestamp, max(batch.timestamp_type, 0), r.key, r.value, r.headers
                )
                for batch, r in records
            ],
            output,
        )
        output.flush()

    tail = Tail(arguments.path)
    try:
        tail.start_last(arguments.records)
        show(last_records(tail.read(), arguments.records))
        if arguments.follow:
            for batch in follow(tail, lambda: time.sleep(PAUSE_S)):
                if not (batch.header.magic == MAGIC and batch.header.is_control):
                    show((batch, record) for record in batch.records)
    finally:
        tail.close()
    return 0
