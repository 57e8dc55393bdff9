"""Where a collection is, and what its metadata say."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, model_validator

from ragtrial.options import Options, PathText

_OF_SERVERS = ("port", "ssl", "headers")


class CollectionOptions(Options):
    """A Chroma collection: in a folder (`path`), or on a server (`host`)."""

    name: Annotated[str, Field(min_length=1)]
    """The collection's name."""

    path: PathText | None = None
    """The folder of an embedded Chroma. It is copied and the copy searched: opening a folder changes its files."""

    host: str | None = None
    """The host of a Chroma server, without `http://`."""

    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    """The server's port."""

    ssl: bool = False
    """Whether the server speaks https."""

    headers: dict[str, SecretStr] = Field(default={})
    """Sent with every request, like `{Authorization: "Bearer ${TOKEN}"}`; in no report and no fingerprint."""

    tenant: str = "default_tenant"
    """Chroma's tenant."""

    database: str = "default_database"
    """Chroma's database."""

    document: str | None = None
    """The metadata key that holds the id of an item's document, or a path that ends in it (default: the item's id)."""

    start: str | None = None
    """The metadata key of the character at which an item begins in its document's normalised text, from 0. Without it
    the item's text is looked for in its document."""

    end: str | None = None
    """The metadata key of the character after an item's last (default: `start` and the length of the item's text)."""

    check: bool = True
    """Embed a few stored texts again before the run, and refuse vectors that the embedder did not make."""

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.path is None) == (self.host is None):
            given = "neither is given" if self.path is None else "both are given"
            raise ValueError(f"{given}; it must have path (a folder) or host (a server), one of the two.")
        of_server = [name for name in _OF_SERVERS if name in self.model_fields_set]
        if self.path is not None and of_server:
            raise ValueError(
                f"only a server has {' and '.join(of_server)}; take that out, or give host in place of path."
            )
        if self.host is not None and ("/" in self.host or not self.host.strip()):
            raise ValueError(f"host is {self.host!r}; it must be a name or an address alone, like localhost (see ssl).")
        if self.end is not None and self.start is None:
            raise ValueError("end comes without start; give both, or start alone.")
        return self

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        return self.path if self.path is not None else self.url

    @property
    def url(self) -> str:
        """Of the server."""
        host = f"[{self.host}]" if self.host and ":" in self.host else self.host
        return f"{'https' if self.ssl else 'http'}://{host}:{self.port}"

    def identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude={"headers", "check", "ssl"})
