"""A connection to PostgreSQL with pgvector, and the URL of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from ragtrial.components.stores.server import server_url
from ragtrial.errors import StoreError, StoreServerError

if TYPE_CHECKING:
    from psycopg import Connection


def postgres_url(value: str) -> str:
    """``value`` if it names a database without a password. Raises ValueError."""
    parts = urlsplit(value)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"is {value!r}; it must be like postgresql://user@localhost:5432/database.")
    on_a_socket = not parts.hostname and "host" in parse_qs(parts.query)
    if "password" in parse_qs(parts.query):
        raise ValueError("a password must not be in a url, which is in every report; set password.")
    return value if on_a_socket and not parts.password else server_url(value)


class Postgres:
    """A connection to a database with pgvector; ``address`` names it in messages, ``timeout`` limits each statement."""

    def __init__(self, url: str, password: SecretStr | None, timeout: float, address: str) -> None:
        import psycopg

        self.address = address
        more: dict[str, Any] = {"password": password.get_secret_value()} if password else {}
        with self.failing():
            self.connection: Connection[Any] = psycopg.connect(
                url, autocommit=True, connect_timeout=max(2, int(min(timeout, 10))), **more
            )
        self.run(f"SET statement_timeout = {int(timeout * 1000)}")

    def extension(self) -> tuple[int, ...]:
        """The version of pgvector. Raises StoreServerError if it is not installed in the database."""
        found = self.ask("SELECT extversion FROM pg_extension WHERE extname = %s", "vector")
        if not found:
            raise StoreServerError(f"{self.address} lacks the extension: run CREATE EXTENSION vector there.")
        return tuple(int(part) for part in str(found[0][0]).split("."))

    def version(self) -> str:
        ((server,),) = self.ask("SELECT current_setting(%s)", "server_version")
        return f"PostgreSQL {str(server).split()[0]}, pgvector {'.'.join(map(str, self.extension()))}"

    def ping(self) -> None:
        self.ask("SELECT %s", 1)

    def close(self) -> None:
        self.connection.close()

    def run(self, statement: str) -> None:
        with self.failing():
            self.connection.execute(statement.encode())

    def ask(self, query: str, *values: Any, prepare: bool | None = None) -> list[Any]:
        """All rows. With ``values`` the server accepts a single statement, whatever the text of the query."""
        with self.failing():
            return self.connection.execute(query.encode(), values or None, prepare=prepare).fetchall()

    def copy(self, statement: str, rows: bytes) -> None:
        with self.failing(), self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(rows)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Turns PostgreSQL's errors into ours, with the address."""
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            raise StoreServerError(f"{self.address}: {_said(error)}") from error
        except psycopg.Error as error:
            raise StoreError(f"{self.address}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """The first line of PostgreSQL's message; the others repeat the statement."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") + "." if lines else type(error).__name__
