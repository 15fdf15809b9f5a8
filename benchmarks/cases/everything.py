"""All cases, by name."""

from benchmarks.cases import belonging, models, moments, search, solvers, start
from benchmarks.harness import Case

THEMES = (moments, solvers, search, models, belonging, start)
CASES: dict[str, Case] = {case.name: case for theme in THEMES for case in theme.CASES}
