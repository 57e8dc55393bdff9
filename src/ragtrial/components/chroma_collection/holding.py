"""Open collections, each once in a process: a copy takes time, and the hash of a content, too."""

from __future__ import annotations

import shutil
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrial.components.chroma_collection.collection import Collection, CollectionOptions
from ragtrial.components.chroma_collection.connecting import connect, disconnect
from ragtrial.components.chroma_collection.copying import Stamp, copied, stamp_of
from ragtrial.components.stores.chroma import is_chroma_error
from ragtrial.errors import InputError, did_you_mean, listed

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection as ChromaCollection

_HELD: dict[str, tuple[Stamp, Collection]] = {}
_LOCK = threading.RLock()


def held_collection(options: CollectionOptions, *, afresh: bool = False) -> Collection:
    """The collection, opened once in this process.

    ``afresh`` looks whether it has changed: a folder is copied again if its files changed, a server asked again.
    Raises InputError for what is not there or cannot be reached; nothing is ever created.
    """
    with _LOCK:
        secrets = [[name, value.get_secret_value()] for name, value in options.headers.items()]
        key = repr([options.model_dump(mode="json", include=_OF_PLACE), secrets])
        held = _HELD.get(key)
        stamp = stamp_of(Path(options.path)) if options.path is not None and (afresh or held is None) else ()
        if held is None or (afresh and (options.path is None or held[0] != stamp)):
            _HELD.pop(key, None)
            held = _HELD[key] = stamp, _opened(options)
        return held[1]


_OF_PLACE = {"name", "path", "host", "port", "ssl", "tenant", "database"}
"""What tells where a collection is; the rest says what its metadata mean."""


def _opened(options: CollectionOptions) -> Collection:
    folder = copied(Path(options.path), options.name) if options.path is not None else None
    try:
        client = connect(options, folder)
    except BaseException:
        _remove(folder)
        raise
    try:
        made = Collection(options, _found(client, options))
    except BaseException:
        _close(client, folder)
        raise
    weakref.finalize(made, _close, client, folder)
    return made


def _found(client: Client, options: CollectionOptions) -> ChromaCollection:
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(options.name, embedding_function=None)
    except (NotFoundError, ValueError) as error:
        names = sorted(one.name for one in client.list_collections())
        near = did_you_mean(options.name, names)
        names.sort(key=lambda name: repr(name) not in near)
        there = f"There are: {listed(names)}." if names else "There is none at all."
        message = f"there is no collection {options.name!r} at {options.address}.{near} {there}"
        raise InputError(message) from error
    except BaseException as error:
        if not is_chroma_error(error):
            raise
        said = " ".join(str(error).split())
        raise InputError(f"the collection {options.name!r} at {options.address} cannot be opened: {said}") from error


def _close(client: Client, folder: Path | None) -> None:
    disconnect(client)
    _remove(folder)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
