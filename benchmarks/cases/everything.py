"""All cases, by name."""

from benchmarks.cases import moments, solvers
from benchmarks.harness import Case

THEMES = (moments, solvers)
CASES: dict[str, Case] = {case.name: case for theme in THEMES for case in theme.cases()}
