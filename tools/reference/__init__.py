"""Generate docs/reference/cli.md and docs/reference/api/ from the code: ``python -m tools.reference``.

- ``commands``  the command-line reference, from the argument parsers
- ``api``       the Python reference, from the docstrings of public names
"""
