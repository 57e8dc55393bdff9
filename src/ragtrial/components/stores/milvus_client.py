"""Clients of Milvus: of a server, and of Milvus Lite in a folder; neither prints, nor reads a .env file."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from ragtrial.components.stores.engine_errors import failing_as
from ragtrial.errors import StoreError, StoreServerError

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""

_PORT = 19_530
_REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_LOCK = threading.Lock()
_IN_USE: Counter[str] = Counter()
"""The number of clients of each Milvus Lite folder in this process; they share its server."""


def server_client(url: str, token: str, database: str, timeout: float, named_by: str = "store.url") -> MilvusClient:
    """A client of the server at ``url``, the option ``named_by``, which has answered. Raises StoreServerError."""
    parts = urlsplit(url)
    start = f"Start it, or correct {named_by} (Milvus listens at port {_PORT})."
    try:
        # Milvus's own client would wait for its whole time limit if nothing listens there.
        socket.create_connection((parts.hostname or "", parts.port or _PORT), min(_PATIENCE, timeout)).close()
    except OSError as error:
        raise StoreServerError(f"no Milvus server answers at {url} ({error.strerror or error}). {start}") from error
    with failing_as(lambda error: _refused(url, error, start)):
        at = url if parts.port else f"{url}:{_PORT}"
        made = _client_class()(at, token=token, db_name=database, timeout=min(_PATIENCE, timeout), dedicated=True)
    try:
        with failing_as(
            lambda error: StoreServerError(f"Milvus at {url}, database {database!r}: {message_of(error)}.")
        ):
            made.list_collections(timeout=timeout)  # fails, too, if there is no such database
    except BaseException:
        made.close()
        raise
    return made


def folder_client(path: Path) -> tuple[MilvusClient, Callable[[], None]]:
    """A client of Milvus Lite in ``path``, which ends in .db, and a function that closes it. Raises StoreError."""
    from milvus_lite.server_manager import server_manager_instance

    place = str(path.absolute())
    with _LOCK, failing_as(lambda error: StoreError(f"Milvus Lite cannot open {path}: {message_of(error)}.")):
        client = _client_class()(place, dedicated=True)
        _IN_USE[place] += 1

    def close() -> None:
        with _LOCK:
            client.close()
            _IN_USE[place] -= 1
            if not _IN_USE[place]:
                del _IN_USE[place]
                server_manager_instance.release_server(place)

    return client, close


def token_of(token: SecretStr | None, user: str | None, password: SecretStr | None) -> str:
    """What pymilvus sends: the token, or user and password joined; empty without either."""
    secret = token or password
    given = "" if secret is None else secret.get_secret_value()
    return given if user is None else f"{user}:{given}"


def message_of(error: BaseException) -> str:
    """The message of an error: Milvus's own, or the details of a gRPC error."""
    details = getattr(error, "details", None)
    text = getattr(error, "message", "") or (details() if callable(details) else "") or str(error)
    return " ".join(str(text).split()).rstrip(".") or type(error).__name__


def is_unimplemented(error: Exception) -> bool:
    """Whether the server does not implement the request."""
    return _status_of(error) == "UNIMPLEMENTED"


def _status_of(error: BaseException) -> str:
    """The name of the gRPC status; empty for an error without one."""
    code: Any = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _refused(url: str, error: BaseException, start: str) -> StoreServerError:
    # For a wrong password pymilvus reports that the server may be unavailable; the error behind it says more.
    causes = [error, error.__cause__ or error.__context__]
    refusals = [one for one in causes if one is not None and _status_of(one) in _REFUSALS]
    if refusals:
        return StoreServerError(
            f"Milvus at {url} refuses ({message_of(refusals[0])}); set token, or user and password."
        )
    return StoreServerError(f"the server at {url} does not answer as Milvus does ({message_of(error)}). {start}")


def _client_class() -> Any:
    """The client of pymilvus, which reads a .env file when it is imported, and prints each error that it raises."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    known = set(os.environ)
    from pymilvus import MilvusClient

    for name in set(os.environ) - known:
        del os.environ[name]
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return MilvusClient
