"""Former keys of configurations, which still work and log a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmpca_dist.configuration.parsing import as_yaml
from mmpca_dist.errors import did_you_mean
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.settings import as_list

FORMER: dict[str, tuple[str, Any]] = {
    "pairing": ("pairing", "one-vs-rest"),
    "shrinkage": ("shrinkage", 1e-3),
    "alpha": ("alpha", 1.0),
    "seed": ("seed", 0),
    "neighbors.mode": ("search", "exact"),
    "neighbors.recall": ("recall", 0.98),
    "neighbors.max_queries": ("max_queries", None),
    "neighbors.mutual": ("mutual", "twice"),
}
"""By dotted key: the option of methods that it has become, and its default."""
NEIGHBORS = "neighbors"
FORMER_SOLVER, REPLACEMENT = "subspace", "krylov"
"""A solver of earlier versions, which converged for two methods only, and what takes its place."""


def with_options(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a configuration with former keys moved into its methods, and the values of these keys.

    Raises ValueError for an unknown key in the former section ``neighbors``.
    """
    former = _former_values(content)
    rest = {key: value for key, value in content.items() if key not in former and key != NEIGHBORS}
    solver = content.get("solver")
    if isinstance(solver, dict) and solver.get("kind") == FORMER_SOLVER:
        former[FORMER_SOLVER] = REPLACEMENT
        rest["solver"] = {**solver, "kind": REPLACEMENT}
    methods = content.get("methods")
    if former and methods is not None:
        rest["methods"] = [_with_former(method, former) for method in as_list(methods)]
    return rest, former


def _former_values(content: Mapping[str, Any]) -> dict[str, Any]:
    former, section = {key: content[key] for key in FORMER if key in content}, content.get(NEIGHBORS)
    if section is None:
        return former
    names = [key.removeprefix(f"{NEIGHBORS}.") for key in FORMER if key.startswith(NEIGHBORS)]
    if not isinstance(section, dict):
        raise ValueError(f"{NEIGHBORS} must hold keys and values, such as {{recall: 0.95}} (found {section!r})")
    for name in section:
        if name not in names:
            raise ValueError(f"{NEIGHBORS} has no key {name!r}.{did_you_mean(str(name), names)}")
    return former | {f"{NEIGHBORS}.{name}": value for name, value in section.items()}


def _with_former(entry: Any, former: dict[str, Any]) -> Any:
    """Return a method with the former keys that are its options, where it does not set them itself."""
    name = entry.get("name") if isinstance(entry, dict) else entry
    if not isinstance(name, str) or name not in METHODS:
        return entry
    fields = METHODS[name].options.model_fields
    options = {FORMER[key][0]: value for key, value in former.items() if key in FORMER and FORMER[key][0] in fields}
    return {"name": name, **options, **(entry if isinstance(entry, dict) else {})} if options else entry


def notes_on(former: Mapping[str, Any], methods: Sequence[Any]) -> list[str]:
    """Return what to write in place of former keys, for the sections of the methods."""
    notes = []
    for key, value in former.items():
        if key == FORMER_SOLVER:
            notes.append(f"solver.kind: {FORMER_SOLVER} is no more; {REPLACEMENT} takes its place.")
            continue
        option = FORMER[key][0]
        name = next((one.name for one in methods if option in type(one.options).model_fields), None)
        if name is None:
            notes.append(f"The key {key} has no effect: no method here has the option {option}.")
        else:
            example = f"{{name: {name}, {option}: {as_yaml(value)}}}"
            notes.append(f"{key} is an option of methods now. Write it there: methods: [{example}].")
    return notes


def former_settings(
    settings: dict[str, Any], former: Mapping[str, Any], methods: Sequence[Any]
) -> dict[str, Any] | None:
    """Return settings as earlier versions stored them; None for what they could not say."""
    if any(section.label != section.name for section in methods):
        return None
    stored: dict[str, Any] = {**settings, "methods": [section.name for section in methods], NEIGHBORS: {}}
    for key, (option, default) in FORMER.items():
        values = [getattr(one.options, option) for one in methods if option in type(one.options).model_fields]
        if any(value != values[0] for value in values):
            return None
        section, _, name = key.rpartition(".")
        (stored[section] if section else stored)[name] = values[0] if values else former.get(key, default)
    return stored
