"""Clients of a Chroma server, which ignore the environment and the working directory's .env file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from ragtrial.errors import InputError

if TYPE_CHECKING:
    from chromadb.api.client import Client

_PATIENCE = 10
"""The time limit for the first answer of a server, in seconds."""


def chroma_server(
    url: str, headers: Mapping[str, SecretStr], tenant: str, database: str, timeout: float, *, named_by: str
) -> Client:
    """A client of the server at ``url``, which has answered; ``named_by`` names the options of the address in messages.

    Raises InputError if no Chroma server answers, or if it refuses.
    """
    sent = {name: value.get_secret_value() for name, value in headers.items()}
    _look_for_server(url, sent, tenant, database, named_by)
    import chromadb
    from chromadb.config import Settings

    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    client: Any = chromadb.HttpClient(
        host=parts.hostname or "",
        port=parts.port or (443 if is_safe else 80),
        ssl=is_safe,
        headers=sent,
        settings=Settings.model_construct(anonymized_telemetry=False),
        tenant=tenant,
        database=database,
    )
    for session in sessions(client):
        session.timeout = timeout  # Chroma's client has no time limit
    return client  # type: ignore[no-any-return]  # Chroma promises only one of its interfaces


def disconnect(client: Client) -> None:
    """Close the client and its connections, which Chroma would leave open."""
    opened = sessions(client)
    client.close()
    for session in opened:
        session.close()


def sessions(client: Client) -> list[Any]:
    """The HTTP connections of a client, which Chroma does not make public; none for a folder."""
    servers: list[Any] = [client._server, getattr(client._admin_client, "_server", None)]  # noqa: SLF001
    return [server._session for server in servers if hasattr(server, "_session")]  # noqa: SLF001


def _look_for_server(url: str, headers: Mapping[str, str], tenant: str, database: str, named_by: str) -> None:
    """Request the heartbeat and the database: Chroma's client has no time limit here, and leaves sockets open."""
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    start = f"Start it with `chroma run --path FOLDER --port {urlsplit(url).port or 8000}`, or correct {named_by}."
    place = f"tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
    said = []
    for path in ("heartbeat", place):
        request = urllib.request.Request(f"{url}/api/v2/{path}", headers=dict(headers))  # noqa: S310 - http(s)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
                said.append(answer.read(10_000))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                fault = f"the server at {url} refuses ({error.code} {error.reason}); set headers to its token."
                raise InputError(fault) from error
            break
        except (OSError, ValueError, HTTPException) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise InputError(f"no Chroma server answers at {url} ({why}). {start}") from error
    if not said or b"nanosecond heartbeat" not in said[0]:
        raise InputError(f"the server at {url} is not a Chroma server of version 1. {start}")
    if len(said) == 1:
        named = f"{database!r} of a tenant {tenant!r}"
        raise InputError(f"the Chroma server at {url} has no database {named}.")
