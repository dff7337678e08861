"""The entry of a command in the table that a package announces."""

from __future__ import annotations


class Command:
    """One command of `kafkalog`.

    Attributes:
        name: the word after `kafkalog`.
        summary: its line in `kafkalog --help`.
        module: the module whose `add_parser` adds the command's options. It is imported only for this command.
        position: where `kafkalog --help` lists it; commands with the same position are sorted by name.
    """

    # This is neither a dataclass nor a named tuple: importing their modules takes longer than reading the whole table.
    __slots__ = ("module", "name", "position", "summary")

    def __init__(self, name: str, summary: str, module: str, position: int = 1000) -> None:
        self.name = name
        self.summary = summary
        self.module = module
        self.position = position
