"""Opens Chroma's collections. Of a folder, only a copy is opened.

Chroma 1.5.9 writes to chroma.sqlite3 whenever a folder is opened, upgrades the tables of older versions, and writes the
graph of a collection anew at its first query while fewer than sync_threshold vectors were added. Two processes that
write to a folder damage it.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrial.components.collections.base import not_there
from ragtrial.components.stores.chroma_server import chroma_server
from ragtrial.errors import InputError, StoreError

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

    from ragtrial.components.collections.chroma import ChromaCollectionOptions

_DATABASE = "chroma.sqlite3"
_TRIES = 3

_ANSWER = 300
"""The time limit for a request to a server, in seconds; Chroma's own client has none."""

Stamp = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files: equal while nobody writes to them."""


def found(client: Client, options: ChromaCollectionOptions) -> Collection:
    """The collection that the options name. Raises InputError if the client has none of that name."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(options.name, embedding_function=None)
    except (NotFoundError, ValueError) as error:
        raise not_there(options, [one.name for one in client.list_collections()]) from error


def stamp_of(folder: Path) -> Stamp:
    """The stamp of the files that Chroma needs from ``folder``. Raises InputError if Chroma did not write it."""
    if not (folder / _DATABASE).is_file():
        near = sorted(path.parent for path in folder.glob(f"*/{_DATABASE}"))
        hint = f" There is one in {near[0]}." if near else ""
        raise InputError(f"{folder} is not a folder of Chroma: there is no {_DATABASE} in it.{hint}")
    files = [path for pattern in (f"{_DATABASE}*", "*/*.bin", "*/*.pickle") for path in folder.glob(pattern)]
    stats = ((path, path.stat()) for path in sorted(files) if path.exists())
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def copied(folder: Path, stack: ExitStack) -> Path:
    """A copy of the files that Chroma needs from ``folder``, which ``stack`` removes; ``folder`` is not written to.

    The copy rolls back a transaction that a killed program left unfinished. Raises InputError if ``folder`` is not
    Chroma's or is being written to, and StoreError if it cannot be copied.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="ragtrial-chroma-", ignore_cleanup_errors=True)
        target = Path(stack.enter_context(made))
        for _ in range(_TRIES):
            before = stamp_of(folder)
            for path in target.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name, *_ in before:
                (target / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / name, target / name)
            if stamp_of(folder) == before:
                return target
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be copied to {tempfile.gettempdir()}, where it is searched: {error}. Set TMPDIR to a "
            f"place with more room, or serve the folder (`chroma run --path {folder}`) and set host instead of path."
        ) from error
    raise InputError(
        f"{folder} is being written to, so it cannot be copied. Stop the program that writes, or serve the "
        f"folder (`chroma run --path {folder}`) and set host instead of path."
    )


def connect(options: ChromaCollectionOptions, folder: Path | None) -> Client:
    """A client of the server or of a copy, which ignores the environment and the working directory's .env file."""
    if folder is None:
        place = (options.url, options.headers, options.tenant, options.database)
        return chroma_server(*place, _ANSWER, named_by="host, port and ssl")
    import chromadb
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    where: Any = {"tenant": options.tenant, "database": options.database}
    client: Any = chromadb.PersistentClient(path=str(folder), settings=settings, **where)
    return client  # type: ignore[no-any-return]  # Chroma promises only one of its interfaces
