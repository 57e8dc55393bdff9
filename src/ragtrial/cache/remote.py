"""What a stage has on a server: a file of its folder names it, so that it goes when the folder goes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

REMOTE = "remote.json"
"""The file that names what is on a server. It is written before anything is made there."""

logger = logging.getLogger(__name__)


class Remote(Protocol):
    """What a stage has on a server. ``str()`` says what and where."""

    def drop(self) -> None:
        """Remove it from the server. It is no error if it is gone; raises RunError if that cannot be known."""
        ...

    def damage(self) -> str | None:
        """What is wrong with it; None if nothing is. Raises RunError if the server cannot be asked."""
        ...


OPENERS: dict[str, Callable[[Mapping[str, Any], Path], Remote]] = {}
"""By the key ``what`` of the file: what is on the server, from the content of the file and its folder."""


def files_of(folder: Path) -> list[Path]:
    """The files of ``folder``, and of the folders in it, that name something on a server."""
    return sorted(folder.rglob(REMOTE))


def open_remote(file: Path) -> Remote:
    """What ``file`` names. Raises ValueError, OSError, LookupError or RunError for what cannot be read or reached."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return OPENERS[content["what"]](content, file.parent)


def release(folder: Path) -> bool:
    """Remove from servers what ``folder`` has there; False, with a warning, where that is not possible now."""
    is_free = True
    for file in files_of(folder):
        try:
            open_remote(file).drop()
        except Exception as error:  # noqa: BLE001 - whatever a client raises: the folder stays, and with it the name
            is_free = False
            said = " ".join(str(error).split()) or type(error).__name__
            logger.warning("what %s names stays on its server: %s `ragtrial cache prune` tries again.", file, said)
    return is_free
