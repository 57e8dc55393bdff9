"""What of a workspace was damaged or foreign and is built again: logged once, and known to who works there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Someone at work in the folder ``root``, whose report names what was ``repaired``."""

    root: Path
    repaired: list[str]


_listeners: WeakSet[Listener] = WeakSet()


def listen(listener: Listener) -> None:
    """Tell ``listener`` of repairs below its folder for as long as it is in use."""
    _listeners.add(listener)


def say_repaired(path: Path, why: str) -> None:
    """Say that ``path`` is not what it should be, and is built again."""
    message = f"{path} is damaged ({why}); it is made again."
    logger.warning(message)
    for listener in list(_listeners):
        if path.is_relative_to(listener.root):
            listener.repaired.append(message)
