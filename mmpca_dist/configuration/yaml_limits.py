"""Limits on the size and depth of configurations."""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import date
from typing import Any

import yaml

from mmpca_dist.errors import ConfigError

MOST_BYTES = 1 << 20
MOST_DEPTH = 30
MOST_ITEMS = 50_000
"""Of one list: names of columns to leave out are the longest."""
MOST_NODES = 100_000
"""Keys and values in all, those of an alias counted wherever it stands."""
MOST_DIGITS = 10_000
"""Of numbers to the base of sixty, which YAML 1.1 has, the time grows with the square."""
NOT_IN_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL ends a name for the operating system, and half a surrogate pair has no bytes in UTF-8."""
FOREIGN = (bytes, date, set, frozenset)
"""What YAML tags can make and no setting is: checks of texts would pass over it."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML takes the last without a word, and documents without bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}
        self._total = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        if self._depth >= MOST_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {MOST_DEPTH} deep")
        before = self._total
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not is_alias:
            self._total += 1
            self._sizes[id(node)] = self._total - before
        elif id(node) not in self._sizes:
            raise yaml.YAMLError("an alias stands within what it names")
        else:
            self._total += self._sizes[id(node)]
        if self._total > MOST_NODES:
            raise yaml.YAMLError(f"it holds more than {MOST_NODES:,} keys and values, aliases written out")
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if not node.tag.endswith(":str") and len(node.value) > MOST_DIGITS:
            raise yaml.YAMLError(
                f"a number or date, of line {node.start_mark.line + 1}, has {len(node.value):,} digits"
            )
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        times = Counter(key.value for key in keys)
        repeated = next((key for key in keys if times[key.value] > 1), None)
        if repeated is not None:
            line = repeated.start_mark.line + 1
            raise yaml.YAMLError(f"the key {repeated.value!r}, of line {line}, is there {times[repeated.value]} times")
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return the content of a YAML document; raise ConfigError if it is no YAML, too large, or has a key twice."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"it has {len(text):,} characters, and configurations at most {MOST_BYTES:,}.")
    try:
        return yaml.load(text, _Loader)  # noqa: S506  (a SafeLoader)
    except Exception as error:  # also of scalars that PyYAML takes for a date or a number, and cannot read as one
        raise ConfigError(" ".join(str(error).split()).rstrip(".") + ".") from error


def refuse_unbounded(content: Any, where: str) -> None:
    """Raise ConfigError for settings of too many keys and values, or nested too deeply, and for unusable values."""
    pending: list[tuple[Any, str, int]] = [(content, "", 0)]
    n_nodes = 0
    while pending:
        value, key, depth = pending.pop()
        n_nodes += 1
        if depth > MOST_DEPTH:
            raise ConfigError(f"{where}: {key} is nested more than {MOST_DEPTH} deep.")
        if isinstance(value, dict | list | tuple) and len(value) > MOST_ITEMS:
            raise ConfigError(f"{where}: {key or 'the mapping'} has {len(value):,} items, and may have {MOST_ITEMS:,}.")
        if isinstance(value, dict):
            for name, inner in value.items():
                pending.append((inner, f"{key}.{name}".lstrip(".") if depth < 3 else key, depth + 1))
            pending += [(name, f"a key of {key}" if key else "a key", depth + 1) for name in value]
        elif isinstance(value, list | tuple):
            pending += [(inner, key, depth + 1) for inner in value]
        else:
            _refuse_value(value, key, where)
        if n_nodes + len(pending) > MOST_NODES:
            raise ConfigError(f"{where}: there are more than {MOST_NODES:,} keys and values.")


def _refuse_value(value: Any, key: str, where: str) -> None:
    if isinstance(value, FOREIGN):
        raise ConfigError(f"{where}: {key} is of type {type(value).__name__}. Write a text in quotes, or a list.")
    if isinstance(value, str) and NOT_IN_TEXT.search(value):
        raise ConfigError(f"{where}: {key} holds a character that no name may hold, such as NUL. Remove it.")
    if isinstance(value, int) and value.bit_length() > 64:
        raise ConfigError(f"{where}: {key} is a number of {int(value.bit_length() * math.log10(2)) + 1} digits.")
