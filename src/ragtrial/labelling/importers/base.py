"""What every reader of another tool's labels owes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragtrial.labelling.importers.content import Content
from ragtrial.labelling.importers.foreign import ForeignLabels
from ragtrial.registry import Registry


@dataclass(frozen=True)
class Importer:
    """The reader of one tool's labels. ``recognised_by`` is what ``can_read`` looks at, for messages.

    One that ``is_general`` is tried after all others: files of other tools may look like its own.
    """

    name: str
    recognised_by: str
    can_read: Callable[[Content], bool]
    read: Callable[[Content], ForeignLabels]
    is_general: bool = False


IMPORTERS: Registry[Importer] = Registry("form of labels")
"""Every form of labels that can be read, each registered in a module of its own in this folder."""


def register(importer: Importer) -> None:
    IMPORTERS.register(importer.name)(importer)
