"""`kafkalog log dump`: print the contents of a log's files as kafka-dump-log.sh does, or as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker.cli.log.common import PATHS, add_command, find, reporting
from kafkalog.cli.shared.client_options import natural, print_json

EXAMPLES = """\
examples:
  kafkalog log dump data/words-0/00000000000000000000.log
  kafkalog log dump --print-data-log data/words-0
  kafkalog log dump --index-sanity-check data
  kafkalog log dump --json --deep-iteration data/words-0 | jq .

Knows .log, .index, .timeindex, .txnindex and .snapshot files, leader-epoch-checkpoint and the offset checkpoints; with
--json partition.metadata and meta.properties too; without it the .kafka files of Kafka 0.7. Indexes are compared with
the log beside them. Exit code 1: a file contradicts itself or its log; `kafkalog log verify` checks more.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `dump`."""
    parser = add_command(
        commands, "dump", "print the content of log, index and checkpoint files",
        "Print the content of a log's files to standard output.", EXAMPLES,
    )  # fmt: skip
    parser.add_argument("file", nargs="*", metavar="PATH", help=PATHS)
    parser.add_argument(
        "--files", default="", metavar="FILE[,FILE…]", help="files to dump, as kafka-dump-log.sh takes them"
    )
    parser.add_argument("--deep-iteration", action="store_true", help="print every record, not only batches")
    parser.add_argument("--print-data-log", action="store_true", help="print keys and values; implies --deep-iteration")
    parser.add_argument("--skip-record-metadata", action="store_true", help="leave out offsets, timestamps and sizes")
    parser.add_argument(
        "--verify-index-only", action="store_true", help="compare an index with its log, without printing it"
    )
    parser.add_argument("--index-sanity-check", action="store_true", help="only check that an index looks valid")
    parser.add_argument(
        "--max-bytes", type=natural, default=(1 << 31) - 1, metavar="N", help="read at most N bytes of a .log file"
    )
    parser.add_argument("--json", action="store_true", help="one object a line: a batch, or a row of another file")
    parser.set_defaults(run=run_dump, parser=parser)


@reporting
def run_dump(arguments: argparse.Namespace) -> int:
    """Print every file; 1 where one cannot be read or something in it does not fit."""
    from broker.log.tools import targets

    paths = [*arguments.file, *filter(None, arguments.files.split(","))]
    if not paths:
        arguments.parser.error("name a FILE to dump, or a directory of them")
    if arguments.json and (arguments.verify_index_only or arguments.index_sanity_check):
        arguments.parser.error("--json prints what is there: `kafkalog log verify --json` compares")
    if arguments.json and arguments.skip_record_metadata:
        arguments.parser.error("--json prints whole records: --skip-record-metadata is for text")
    files: list[str] = []
    failed = False
    for path in paths:
        try:
            files += targets.dump_files(find([path]), with_identity=arguments.json)
        except targets.NotALogError as error:
            print(error, file=sys.stderr)
            failed = True
    for file in files:
        failed |= _dump_json(arguments, file) if arguments.json else _dump_text(arguments, file)
    return int(failed)


def _dump_json(arguments: argparse.Namespace, file: str) -> bool:
    from broker.log.tools.dump_json import dump_rows

    failed = False
    rows = dump_rows(
        file, deep=arguments.deep_iteration, contents=arguments.print_data_log, max_bytes=arguments.max_bytes
    )
    try:
        for row in rows:
            print_json(row)
            failed |= "problem" in row or row.get("valid") is False
    except BrokenPipeError:
        raise
    except OSError as error:
        print_json({"file": file, "type": "problem", "problem": error.strerror})
        failed = True
    return failed


def _dump_text(arguments: argparse.Namespace, file: str) -> bool:
    from broker.log.index.index_file import CorruptIndexError
    from broker.log.tools.dump import dump_file
    from kafkalog.records.errors import RecordsError
    from kafkalog.storage.checkpoints import CorruptCheckpointError

    if file.endswith(".kafka"):
        return _dump_0_7(arguments, file)
    problems: list[str] = []
    damaged = False
    try:
        for line in dump_file(
            file,
            deep_iteration=arguments.deep_iteration,
            print_data_log=arguments.print_data_log,
            skip_record_metadata=arguments.skip_record_metadata,
            verify_index_only=arguments.verify_index_only,
            index_sanity_check=arguments.index_sanity_check,
            max_bytes=arguments.max_bytes,
            problems=problems,
        ):
            print(line)
            damaged |= _tells_of_damage(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        problems.append(f"{error.filename or file}: {error.strerror}")
    except (CorruptCheckpointError, CorruptIndexError, RecordsError) as error:
        # Some of the messages begin with the path.
        problems.append(f"{file}: {str(error).removeprefix(f'{file}: ')}")
    sys.stdout.flush()
    for problem in problems:
        print(problem, file=sys.stderr)
    return damaged or bool(problems)


def _tells_of_damage(line: str) -> bool:
    # Lines about records have the text of users.
    return not line.startswith("|") and (line.startswith("Found ") or line.endswith("isvalid: false"))


def _dump_0_7(arguments: argparse.Namespace, file: str) -> bool:
    """Print a segment of Kafka 0.7, whose offsets are positions; return whether something in it does not fit."""
    from broker.log.kafka_0_7 import dump_lines

    failed = False
    try:
        for line in dump_lines(Path(file), deep=arguments.deep_iteration, payloads=arguments.print_data_log):
            print(line)
            failed |= _tells_of_damage(line)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        failed = True
    return failed
