"""A client of a server or of a copy, deaf to what the environment and the .env file of the working directory say."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ragtrial.components.chroma_collection.collection import CollectionOptions
from ragtrial.components.stores.chroma import is_chroma_error
from ragtrial.errors import InputError

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
    for session in _sessions(client):
        session.timeout = _ANSWER
    return client


def disconnect(client: Client) -> None:
    """Close the client, and its connections, which Chroma leaves open."""
    sessions = _sessions(client)
    client.close()
    for session in sessions:
        session.close()


def _sessions(client: Client) -> list[httpx.Client]:
    """The connections of a client of a server, which has no public way to them; none of a folder."""
    servers: list[Any] = [client._server, getattr(client._admin_client, "_server", None)]  # noqa: SLF001
    return [server._session for server in servers if hasattr(server, "_session")]  # noqa: SLF001


def _opened(make: Callable[[], object], options: CollectionOptions) -> object:
    try:
        return make()
    except InputError:
        raise
    except BaseException as error:
        if not is_chroma_error(error):
            raise
        place = f"tenant {options.tenant!r}, database {options.database!r}"
        raise InputError(f"Chroma at {options.address} cannot be opened ({place}): {_line(error)}") from error


def _look_for_server(options: CollectionOptions) -> None:
    """Ask for the server's heartbeat and the database: Chroma's client waits without end, and says little."""
    start = f"Start it with `chroma run --path FOLDER --port {options.port}`, or mend host, port and ssl."
    try:
        said = _asked(options, "heartbeat")
    except urllib.error.HTTPError as error:
        raise InputError(_refusal(options, error, start)) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise InputError(f"no Chroma server answers at {options.url} ({_line(why)}). {start}") from error
    except HTTPException as error:
        message = f"what answers at {options.url} does not speak {'https' if options.ssl else 'http'}"
        raise InputError(f"{message} ({_line(error) or type(error).__name__}). {start}") from error
    if b"nanosecond heartbeat" not in said:
        raise InputError(f"what answers at {options.url} is no Chroma server: it has no heartbeat. {start}")
    try:
        _asked(options, f"tenants/{quote(options.tenant, safe='')}/databases/{quote(options.database, safe='')}")
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise InputError(_refusal(options, error, start)) from error
        raise InputError(
            f"the Chroma server at {options.url} has no database {options.database!r} of a tenant {options.tenant!r}."
        ) from error
    except (OSError, HTTPException) as error:
        raise InputError(f"the Chroma server at {options.url} does not answer ({_line(error)}).") from error


def _asked(options: CollectionOptions, path: str) -> bytes:
    headers = {name: value.get_secret_value() for name, value in options.headers.items()}
    request = urllib.request.Request(f"{options.url}/api/v2/{path}", headers=headers)  # noqa: S310 - http or https
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
            said: bytes = answer.read(10_000)
            return said
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _refusal(options: CollectionOptions, error: urllib.error.HTTPError, start: str) -> str:
    said = f"{error.code} {error.reason}"
    if error.code in (401, 403):
        return f"the server at {options.url} refuses ({said}); give the token that it wants in headers."
    return f"what answers at {options.url} is no Chroma server of version 1 ({said} for {error.url}). {start}"


def _line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
