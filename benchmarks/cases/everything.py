"""All cases, by name."""

from benchmarks.cases import moments
from benchmarks.harness import Case

THEMES = (moments,)
CASES: dict[str, Case] = {case.name: case for theme in THEMES for case in theme.cases()}
