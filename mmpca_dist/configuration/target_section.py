"""Numbers to predict in a configuration: columns, or one that is cut into slices."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_serializer, model_validator

from mmpca_dist.settings import as_list, setting


class TargetSection(BaseModel):
    """Columns of numbers, and into how many slices the first is cut."""

    model_config = ConfigDict(extra="forbid", frozen=True, field_title_generator=lambda name, _: name)

    column: Annotated[list[str], BeforeValidator(as_list)] = setting(
        min_length=1, example="price", description="Columns of numbers"
    )
    slices: int | None = setting(
        None,
        ge=2,
        le=100,
        strict=True,
        example=10,
        description="Into how many classes it is cut by quantiles; ties may leave fewer",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: Any) -> Any:
        unknown = sorted(set(value) - set(cls.model_fields)) if isinstance(value, dict) else []
        if unknown:
            raise ValueError(f"its keys are column and slices, not {unknown[0]}")
        return {"column": value} if isinstance(value, str | list) else value

    @model_validator(mode="after")
    def _one_column(self) -> TargetSection:
        if self.slices is not None and len(self.column) > 1:
            raise ValueError("slices cut a single column: name one, or leave slices out")
        if len(set(self.column)) < len(self.column):
            raise ValueError("a column is named twice")
        return self

    @model_serializer
    def _to_yaml(self) -> Any:
        if self.slices is not None:
            return {"column": self.column[0], "slices": self.slices}
        return self.column[0] if len(self.column) == 1 else self.column
