"""List every module in docs/design.md, with the first words of its docstring: ``python docs/modules.py``."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "design.md"
HEADING = "## Every module\n"
WORDS = "\nEach with the first words of its docstring; `python docs/modules.py` writes this list.\n\n"


def lines() -> list[str]:
    """Return a line for each module that says what it has."""
    found = []
    for folder, beginning in ((ROOT / "mmpca_dist", ""), (ROOT / "pipelines", "pipelines/")):
        for path in sorted(folder.rglob("*.py")):
            words = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
            if words and path.name != "__init__.py":
                found.append(
                    f"- `{beginning}{path.relative_to(folder)}`: {' '.join(words.split()).replace('``', '`')}\n"
                )
    return found


def page() -> str:
    """Return docs/design.md with the list as it should be."""
    before, heading, _ = PAGE.read_text().partition(HEADING)
    return before + heading + WORDS + "".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page())
