"""All cases, by name."""

from benchmarks.cases import models, moments, search, solvers, start
from benchmarks.harness import Case

THEMES = (moments, solvers, search, models, start)
CASES: dict[str, Case] = {case.name: case for theme in THEMES for case in theme.CASES}
