"""Field types shared by the sections of a stack file."""

import functools
import re
from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from catalog.source import Source, docs


class UnreadError(ValueError):
    """A rule came to a field that has an error of its own."""


class Unread:
    """Stands in raw data where a wrong value was."""


class Section(BaseModel):
    """Plain frozen data; a misspelt key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="wrap")
    @classmethod
    def _readable(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """What there is beside Unread fields, unchecked as a whole."""
        if not isinstance(value, Mapping) or all(each is not Unread for each in value.values()):
            return read(value)
        keys = {name: info.alias or name for name, info in cls.model_fields.items()}
        try:
            found = {
                key: _adapter(cls, name).validate_python(value[key])
                for name, key in keys.items()
                if key in value and value[key] is not Unread
            }
        except ValidationError:
            raise UnreadError from None
        partial = cast("Self", cls.model_construct(None, **found))
        for name, key in keys.items():
            if value.get(key) is Unread:
                partial.__dict__.pop(name, None)
        return partial

    if not TYPE_CHECKING:  # a checker would believe that every name exists

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise UnreadError(name)
            return super().__getattr__(name)


@functools.cache
def _adapter(model: type[BaseModel], field: str) -> TypeAdapter[Any]:
    info = model.model_fields[field]
    union = [Field(discriminator=info.discriminator)] if info.discriminator else []
    typed: Any = Annotated[(info.annotation, *info.metadata, *union, None)]
    return TypeAdapter(typed)


def broken(rule: str, *, fix: str, source: Source | str) -> PydanticCustomError:
    """A field error that carries its fix and source, for use inside validators."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule, "fix": fix, "source": str(source)})


def matching(pattern: str, rule: str, source: Source | str) -> Any:
    """A validator: text of one form, refused with the form in words."""

    form = re.compile(pattern)

    def validate(value: Any) -> Any:
        if isinstance(value, str) and not form.fullmatch(value):
            raise broken(rule, fix=f"write it as {form.pattern}", source=source)
        return value

    return BeforeValidator(validate)


def _network(value: Any) -> Any:
    if isinstance(value, IPv4Network):
        return value
    source = docs("VPC subnets")
    if not isinstance(value, str):
        raise broken(
            "an IPv4 range in CIDR form, as text", fix="write it as 10.0.0.0/18", source=source
        )
    try:
        loose = IPv4Network(value, strict=False)
    except ValueError as error:
        raise broken(
            f"an IPv4 range in CIDR form: {error}", fix="write it as 10.0.0.0/18", source=source
        ) from None
    if "/" not in value:
        raise broken("an IPv4 range has a prefix length", fix=f"{value}/24, say", source=source)
    if str(loose) != value:
        raise broken(
            "a range starts at its network address: bits are set beyond the prefix",
            fix=f"use {loose}",
            source=source,
        )
    return loose


Cidr = Annotated[IPv4Network, BeforeValidator(_network), PlainSerializer(str)]
"""An IPv4 range without host bits; Google's provider accepts them and the API does not."""

ResourceName = Annotated[
    str,
    matching(
        r"[a-z]([-a-z0-9]*[a-z0-9])?",
        "a name starts with a lower-case letter and has letters, digits and hyphens",
        docs("Naming resources"),
    ),
]

ProjectId = Annotated[
    str,
    matching(
        r"([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
        "a project id has 6 to 30 lower-case letters, digits and hyphens",
        docs("Creating and managing projects"),
    ),
]

LabelKey = Annotated[
    str,
    matching(
        r"[a-z][-_a-z0-9]{0,62}",
        "a label key starts with a lower-case letter and has at most 63 characters",
        docs("Labels overview"),
    ),
]

LabelValue = Annotated[
    str,
    matching(
        r"[-_a-z0-9]{0,63}",
        "a label value has lower-case letters, digits, hyphens and underscores, at most 63",
        docs("Labels overview"),
    ),
]


def _whole(value: Any) -> Any:
    # Python counts true as 1.
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[Whole, Field(ge=1)]
