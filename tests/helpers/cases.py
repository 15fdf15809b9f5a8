"""Tables of cases that one test goes through."""

from __future__ import annotations


def each(cases, folder):
    """Yield the cases of a table, each with an empty folder of its own."""
    for number, case in enumerate(cases):
        place = folder / f"case-{number}"
        place.mkdir()
        yield case, place
