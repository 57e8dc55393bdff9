"""A client of a server or of a copy, deaf to what the environment and the .env file of the working directory say."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ragtrial.collection.options import CollectionOptions
from ragtrial.errors import InputError
from ragtrial.stores.chroma import is_chromas

if TYPE_CHECKING:
    import httpx
    from chromadb.api.client import Client

_PATIENCE = 10
"""Seconds in which a server must say that it is one."""

_ANSWER = 300
"""Seconds in which a server must answer anything else; Chroma's client would wait without end."""


def connect(options: CollectionOptions, folder: Path | None) -> Client:
    """A client of the server, or of the copy in ``folder``. Raises InputError for what cannot be reached or opened."""
    import chromadb
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    where = {"tenant": options.tenant, "database": options.database}

    def make() -> object:
        if folder is not None:
            return chromadb.PersistentClient(path=str(folder), settings=settings, **where)
        _look_for_server(options)
        headers = {name: value.get_secret_value() for name, value in options.headers.items()}
        return chromadb.HttpClient(
            host=str(options.host), port=options.port, ssl=options.ssl, headers=headers, settings=settings, **where
        )

    client = cast("Client", _opened(make, options))
    if folder is None:
        _session(client).timeout = _ANSWER
    return client


def disconnect(client: Client) -> None:
    """Close the client, and its connections, which Chroma leaves open."""
    session = _session(client) if hasattr(client._server, "_session") else None  # noqa: SLF001 - no public way
    client.close()
    if session is not None:
        session.close()


def _session(client: Client) -> httpx.Client:
    return cast("httpx.Client", client._server._session)  # type: ignore[attr-defined]  # noqa: SLF001 - no public way


def _opened(make: Callable[[], object], options: CollectionOptions) -> object:
    try:
        return make()
    except InputError:
        raise
    except BaseException as error:
        if not is_chromas(error):
            raise
        place = f"tenant {options.tenant!r}, database {options.database!r}"
        raise InputError(f"Chroma at {options.address} cannot be opened ({place}): {_line(error)}") from error


def _look_for_server(options: CollectionOptions) -> None:
    """Ask for the server's heartbeat: Chroma's client waits without end, and says little of what it finds."""
    url = f"{options.url}/api/v2/heartbeat"
    headers = {name: value.get_secret_value() for name, value in options.headers.items()}
    start = f"Start it with `chroma run --path FOLDER --port {options.port}`, or mend host, port and ssl."
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_PATIENCE) as answer:  # noqa: S310 - http or https
            said = answer.read(1_000)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            raise InputError(
                f"the Chroma server at {options.url} refuses ({error.code} {error.reason}); give the token it wants "
                "in headers."
            ) from error
        raise InputError(
            f"what answers at {options.url} is no Chroma server of version 1 ({error.code} {error.reason} for {url}). "
            f"{start}"
        ) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise InputError(f"no Chroma server answers at {options.url} ({_line(why)}). {start}") from error
    except Exception as error:  # http.client's errors, which share no base with the others
        raise InputError(f"what answers at {options.url} does not speak http ({_line(error)}). {start}") from error
    if b"nanosecond heartbeat" not in said:
        raise InputError(f"what answers at {options.url} is no Chroma server: it has no heartbeat. {start}")


def _line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
