"""The claims of two mirrors in opposite directions: each topic belongs to one of them.

- `returning`  finds the topics that a mirror of the other direction writes
- `releasing`  gives topics up
"""
