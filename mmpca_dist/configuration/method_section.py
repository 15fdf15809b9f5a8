"""A method in a configuration: its name alone, or a mapping with its options and a label."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, SerializeAsAny, model_serializer, model_validator

from mmpca_dist.configuration.parsing import NameOrMapping, named_content, parse_model
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import METHODS, Method, title_of
from mmpca_dist.settings import Section

LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,62}[A-Za-z0-9+])?")
"""Labels name folders, files and columns."""


class MethodSection(BaseModel):
    """A method, its options, and what results call it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    label: str
    options: SerializeAsAny[Section]

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        options = dict(named_content(value, METHODS, "method", "{name: ridge, alpha: 10}"))
        name = options.pop("name")
        label = options.pop("label", name)
        if not isinstance(label, str) or not LABEL.fullmatch(label):
            raise ValueError(
                f"label of {name} must be at most 64 letters, digits, dots, dashes, underscores and plus signs (found "
                f"{label!r})"
            )
        if label != name and label in METHODS:
            raise ValueError(f"label {label!r} of {name} is the name of another method; choose another label")
        return {"name": name, "label": label, "options": parse_model(METHODS[name].options, options, name)}

    @model_serializer
    def _to_yaml(self) -> Any:
        options = self.options.model_dump(mode="json")
        if not options and self.label == self.name:
            return self.name
        return {"name": self.name, **({} if self.label == self.name else {"label": self.label}), **options}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).model_validate, (self.model_dump(),)  # pickle finds no model of options by its name

    @property
    def method(self) -> Method:
        """The specification of the method."""
        return METHODS[self.name]

    @property
    def title(self) -> str:
        """The method's title, or the label where it is not the method's name."""
        return title_of(self.label)

    @property
    def needs(self) -> Needs:
        """Its needs of the rows."""
        return self.reducer(None).needs()

    def reducer(self, n_components: float | None, **shared: Any) -> MomentReducer:
        """Return its estimator, with parameters that all methods of a configuration share."""
        return self.method.reducer(n_components, self.options, **shared)


MethodSetting = Annotated[MethodSection, NameOrMapping(METHODS)]
"""A method as a form or file may give it."""
