"""What settings are made of: typed values with their limits, and the kind that each setting has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lightwork.settings.conversion import (
    checked_steps,
    list_of,
    located,
    number,
    one_or_list,
    size_bytes,
    whole,
)

# Limits stand before the conversion: then they are checked after it, and stand in the JSON schema.
Whole = Annotated[int, BeforeValidator(whole)]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(number)]
BucketSize = Annotated[int, Field(ge=1024), BeforeValidator(size_bytes)]
Location = Annotated[Path, BeforeValidator(located)]
Locations = Annotated[tuple[Location, ...], BeforeValidator(one_or_list)]
Language = Literal[
    "auto", "en", "zh", "zh-hant", "ar", "de", "el", "es", "fr", "hi", "it", "ja", "ko", "pt", "ro",
    "ru", "th", "tr", "vi", "other",
]  # fmt: skip
Sinks = Annotated[tuple[Literal["tensorboard", "wandb", "mlflow"], ...], BeforeValidator(list_of)]
Steps = Annotated[str, Field(json_schema_extra={"format": "steps"}), AfterValidator(checked_steps)]
Text = Annotated[str, Field(min_length=1)]
AtLeastOne = Annotated[int, Field(ge=1), BeforeValidator(whole)]
Shares = Annotated[int, Field(ge=1, le=4096), BeforeValidator(whole)]
MicroBatch = Annotated[int, Field(ge=16), BeforeValidator(whole)]
Threads = Annotated[int, Field(ge=1, le=1024), BeforeValidator(whole)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(number)]
Decay = Annotated[float, Field(ge=0, lt=1), BeforeValidator(number)]
Dropout = Annotated[float, Field(ge=0, le=0.9), BeforeValidator(number)]
SEED_BITS = 32
if TYPE_CHECKING:
    Seed = int  # "random" is a number from the moment a run is open: settings/seed.py
else:
    _Number = Annotated[int, Field(ge=0, le=(1 << SEED_BITS) - 1), BeforeValidator(whole)]
    Seed = Literal["random"] | _Number


def identity(default: Any, text: str, **limits: Any) -> Any:
    """A setting that changes what is learned."""
    return Field(default, description=text, json_schema_extra={"kind": "identity"}, **limits)


def machine(default: Any, text: str, **limits: Any) -> Any:
    """A setting that only changes where, how fast and how safely it is learned."""
    return Field(default, description=text, json_schema_extra={"kind": "machine"}, **limits)


def reporting(default: Any, text: str, **limits: Any) -> Any:
    """A setting that only changes what is measured and written down."""
    return Field(default, description=text, json_schema_extra={"kind": "reporting"}, **limits)


class Section(BaseModel):
    """A group of settings; unknown names are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
