"""The collection of a stage on a server: a file in its folder names it, and only a named config may connect to the
server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ragtrial.cache.untrusted import load_json

REMOTE = "remote.json"
"""The file that names a collection on a server. It is written before anything is created there."""


class Remote(Protocol):
    """The collection of a stage on a server. ``str()`` names it and its server."""

    def drop(self) -> None:
        """Remove it from the server. It is no error if it is gone; raises RunError if that cannot be known."""
        ...

    def damage(self) -> str | None:
        """The fault of the collection; None if it has none. Raises RunError if the server cannot be asked."""
        ...


class Servers(Protocol):
    """The servers that one config connects to."""

    def find(self, content: Mapping[str, Any], folder: Path) -> Remote | None:
        """The collection that the file of a stage's ``folder`` names, if it is on one of these servers."""
        ...


class UnreachedError(Exception):
    """A collection cannot be checked or removed: no named config connects to its server, or the server fails."""


def files_of(folder: Path) -> list[Path]:
    """The files of ``folder``, and of the folders in it, that name something on a server."""
    return sorted(path for path in folder.rglob("*") if path.name.casefold() == REMOTE)


def open_remote(file: Path, configs: Sequence[Servers]) -> Remote:
    """The collection that ``file`` names, reached through one of ``configs``: a file of the cache is never a reason to
    connect.

    Raises UnreachedError, or ValueError, TypeError or OSError if the file cannot be read.
    """
    content = load_json(file.read_bytes())
    if not isinstance(content, dict):
        raise TypeError(f"{file} is not a JSON object")
    for config in configs:
        if (remote := config.find(content, file.parent)) is not None:
            return remote
    raise UnreachedError(
        f"{file} names the collection {content.get('collection')!r} on a server that no named config connects to; "
        "name the config that built it: --config CONFIG."
    )


def damage(folder: Path, configs: Sequence[Servers]) -> str | None:
    """The fault of a collection that ``folder`` names; None if it has none. Raises UnreachedError."""
    for file in files_of(folder):
        with _reaching():
            remote = open_remote(file, configs)
            if (why := remote.damage()) is not None:
                return f"{remote}: {why}"
    return None


def release(folder: Path, configs: Sequence[Servers]) -> None:
    """Remove from servers what ``folder`` has there. Raises UnreachedError: the folder stays, and with it the name."""
    for file in files_of(folder):
        with _reaching():
            open_remote(file, configs).drop()


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn any error of a client, which says nothing about the collection, into an UnreachedError."""
    try:
        yield
    except Exception as error:
        raise UnreachedError(" ".join(str(error).split()) or type(error).__name__) from error
