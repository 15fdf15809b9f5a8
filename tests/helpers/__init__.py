"""What several test files share."""

from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[2]
"""The checkout."""


def each(cases, folder):
    """Yield the cases of a table, each with an empty folder of its own."""
    for number, case in enumerate(cases):
        place = folder / f"case-{number}"
        place.mkdir()
        yield case, place


def examples(count):
    """Return how many examples to try: ``count`` in the suite, more under Hypothesis's profile ``fuzz``."""
    return count * settings.default.max_examples // 40
