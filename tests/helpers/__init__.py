"""What several test files share."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""


def each(cases, folder):
    """Yield the cases of a table, each with an empty folder of its own."""
    for number, case in enumerate(cases):
        place = folder / f"case-{number}"
        place.mkdir()
        yield case, place
