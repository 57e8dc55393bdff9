"""The prompt of a model: a template from a file or our own, with passages between marks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtrial.components.endpoints.chat import ChatMessage, ChatRequest
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, InputError


@dataclass(frozen=True)
class ModelPrompt:
    """A ``template`` with places such as ``{query}``, among them ``{passage}``."""

    template: str

    @property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the template."""
        return hashlib.sha256(self.template.encode()).hexdigest()[:16]

    def filled(self, passage: str, **values: str) -> ChatRequest:
        """One message. The passage is between two marks made of its own hash, so it cannot contain them.

        All places are filled at once: a text that contains a place keeps it.
        """
        mark = hashlib.sha256("\n".join([*values.values(), passage]).encode()).hexdigest()[:16]
        enclosed = f"<passage id={mark}>\n{passage}\n</passage id={mark}>"
        places: Mapping[str, str] = {f"{{{name}}}": value for name, value in {**values, "passage": enclosed}.items()}
        parts = re.split(f"({'|'.join(map(re.escape, places))})", self.template)
        return (ChatMessage("user", "".join(places.get(part, part) for part in parts)),)


def read_prompt(path: Path | None, own: str, places: Sequence[str]) -> ModelPrompt:
    """The prompt of a file, or our ``own``. Raises InputError for a prompt without one of the ``places``."""
    if path is None:
        return ModelPrompt(own)
    template = read_text(path, InputError)
    lacking = [place for place in places if place not in template]
    if lacking:
        message = f"lacks {' and '.join(lacking)}; a prompt needs {' and '.join(places)}."
        raise InputError(Fault(str(path), message=message))
    return ModelPrompt(template)
