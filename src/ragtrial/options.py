"""The base of everything that a config can say: strict, frozen, with descriptions that editors show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragtrial.registry import Registry


class Options(BaseModel):
    """Unknown keys are refused, types are not guessed, values do not change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    named_by: ClassVar[tuple[str, ...]] = ()
    """What ``summary`` tells, chosen or not."""

    def identity(self) -> dict[str, Any]:
        """What changes the outcome, as JSON values: the part of the options that is hashed."""
        return self.model_dump(mode="json")

    def summary(self) -> str:
        """One line that tells these options from others of their kind: the kind, and what was chosen."""
        kind = str(getattr(self, "kind", ""))
        named = (self.model_fields_set | set(self.named_by)) - {"kind"}
        values = self.model_dump(include=named)
        first = [name for name in self.named_by if name in values]
        chosen = [f"{name}={values[name]}" for name in dict.fromkeys([*first, *values])]
        return " ".join([kind, *chosen]).strip()


class LocatedText(str):
    """A string of a config file that knows the folder it was written in, for the paths among them."""

    folder: Path

    def __new__(cls, text: str, folder: Path) -> Self:
        made = super().__new__(cls, text)
        made.folder = folder
        return made


def at_home(path: str) -> Path:
    """``path`` with ``~`` or ``~user`` resolved; as it is where there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises where there is no such user


def _absolute(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("a path must not be empty.")
    folder = value.folder if isinstance(value, LocatedText) else Path()
    return os.path.normpath(folder.absolute() / at_home(value))


def located(text: str) -> str:
    """The path that ``text`` is, made absolute as PathText is."""
    return str(_absolute(text))


def _model_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("a model's name must not be empty.")
    path = str(_absolute(value))
    looks_local = value.startswith((".", "/", "~")) or Path(path).is_dir()
    return path if looks_local else str(value)


TOKENIZERS = ("embedder", "characters", "words")
"""What counts lengths, besides a tokenizer.json."""


def _tokenizer_name(value: object) -> object:
    return str(value) if value in TOKENIZERS else _absolute(value)


PathText = Annotated[str, BeforeValidator(_absolute)]
"""A path, made absolute from the folder of the file it was written in (the current one without a file)."""

ModelName = Annotated[str, BeforeValidator(_model_name)]
"""A model's name on the hub, or the path of a local folder (made absolute as PathText is)."""

TokenizerName = Annotated[str, BeforeValidator(_tokenizer_name)]
"""One of TOKENIZERS, or the path of a tokenizer.json (made absolute as PathText is)."""


def union_of(members: Registry[Any]) -> Any:
    """The type of a config value that is any member of a family, told apart by its ``kind``."""
    classes = tuple(member for _, member in members.members())
    return Annotated[Union[classes], Field(discriminator="kind")] if len(classes) > 1 else classes[0]  # noqa: UP007
