"""A row map in a configuration: its name alone, or a mapping with its options."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, SerializeAsAny, model_serializer, model_validator

from mmpca_dist.configuration.parsing import NameOrMapping, named_content, parse_model
from mmpca_dist.tables.mapped_rows import stored_form
from mmpca_dist.tables.row_maps.specification import ROW_MAPS, RowMap


class RowMapSection(BaseModel):
    """A row map and its options."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    map: SerializeAsAny[RowMap]

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        options = dict(named_content(value, ROW_MAPS, "row map", "{name: nystroem, n_components: 300}"))
        name = options.pop("name")
        return {"name": name, "map": parse_model(ROW_MAPS[name].options, options, name)}

    @model_serializer
    def _to_yaml(self) -> Any:
        return stored_form(self.map)


RowMapSetting = Annotated[RowMapSection, NameOrMapping(ROW_MAPS)]
"""A row map as a form or file may give it."""
