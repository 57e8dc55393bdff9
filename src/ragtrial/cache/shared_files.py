"""Files under a URL that fsspec reaches."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from ragtrial.cache.seals import DamagedError
from ragtrial.errors import InputError, RagtrialError, WorkspaceError

_PASSWORD = re.compile(r"(://[^/:]*):([^/]*)@")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Protocols without folders, where making one would make a bucket."""


class SharedFiles:
    """The files below ``url``, by their paths there; ``name`` is the URL without a password.

    Raises InputError if no package can reach such a URL, and WorkspaceError if the other side fails.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise InputError("cache push and pull need a package: pip install 'ragtrial[remote]'.") from error
        self._url, self.name = url, _PASSWORD.sub(r"\1:***@", url)
        self._password = found[2] if (found := _PASSWORD.search(url)) else ""
        with self._failing("reach"):  # some clients connect at once
            try:
                self._files, root = url_to_fs(url)
            except (ImportError, ValueError) as error:
                raise InputError(f"{self.name} cannot be used: {self._said(error)}") from error
        self._root = root.rstrip("/")
        protocol = self._files.protocol
        self._is_object_store = bool(_OBJECT_STORES & {*([protocol] if isinstance(protocol, str) else protocol)})

    def listed(self) -> dict[str, int]:
        """Each file below the URL, and its size."""
        with self._failing("list"):
            try:
                self._files.invalidate_cache()
                found = self._files.find(self._root, detail=True)
            except FileNotFoundError:
                return {}
        if self._root in found:
            raise InputError(f"{self.name} is a file; name a folder.")
        files = {path: about for path, about in found.items() if about.get("type", "file") == "file"}
        return {path[len(self._root) + 1 :]: int(about["size"] or 0) for path, about in files.items()}

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file. In a folder, a finished file is renamed; an object store needs no rename."""
        target, is_local = f"{self._root}/{name}", getattr(self._files, "local_file", False)
        written = f"{self._root}/partial/{uuid.uuid4().hex}" if is_local else target
        with self._failing(f"write {name} to"):
            for path in () if self._is_object_store else {target, written}:
                self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
            with self._files.open(written, "wb") as file:
                for block in blocks:
                    file.write(block)
            if is_local:
                Path(written).replace(target)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file, open for reading. Raises DamagedError if it is missing."""
        with self._failing(f"read {name} of"):
            try:
                with self._files.open(f"{self._root}/{name}", "rb") as file:
                    yield file
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None

    def read(self, name: str, most_bytes: int) -> bytes:
        """All bytes of a file. Raises DamagedError if it is missing, or larger than ``most_bytes``."""
        with self.opened(name) as file:
            content = bytes(file.read(most_bytes + 1))
        if len(content) > most_bytes:
            raise DamagedError(f"{name} has more than {most_bytes:,} bytes")
        return content

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn any error of a client into a WorkspaceError that names the URL."""
        try:
            yield
        except (RagtrialError, DamagedError):
            raise
        except Exception as error:
            raise WorkspaceError(f"cannot {what} {self.name}: {self._said(error)}") from error

    def _said(self, error: Exception) -> str:
        """The message of a client, on one line and without a password."""
        text = " ".join(str(error).replace(self._url, self.name).split()) or type(error).__name__
        for secret in filter(None, (self._password, unquote(self._password))):
            text = text.replace(secret, "***")
        return text
