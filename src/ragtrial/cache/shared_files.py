"""Files under a URL that fsspec reaches: whole or absent, and compared with their checksums when they are read."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from ragtrial.cache.fingerprints import checksum_of, file_checksum
from ragtrial.cache.seals import DamagedError
from ragtrial.errors import InputError, RagtrialError, WorkspaceError

_PASSWORD = re.compile(r"(://[^/:]*):([^/]*)@")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Protocols without folders, where making one would make a bucket."""

MOST_LIST_BYTES = 32_000_000
"""The most bytes of a list of files or keys, and of a file of answers."""

_BLOCK_BYTES = 1_000_000


class SharedFiles:
    """The files below ``url``, by their paths there; ``name`` is the URL without a password.

    Raises InputError if no package can reach such a URL, and RunError if the other side fails.
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
                self._files, self._root = url_to_fs(url)
            except (ImportError, ValueError) as error:
                raise InputError(f"{self.name} cannot be used: {self._said(error)}") from error
        protocol = self._files.protocol
        self._is_object_store = bool(_OBJECT_STORES & {*([protocol] if isinstance(protocol, str) else protocol)})

    def listed(self, folder: str = "") -> dict[str, int]:
        """Each file below the URL, or below a ``folder`` there, and its size."""
        with self._failing("list"):
            try:
                self._files.invalidate_cache()
                found = self._files.find(self._path(folder) if folder else self._root, detail=True)
            except FileNotFoundError:
                return {}
        if self._root.rstrip("/") in found:
            raise InputError(f"{self.name} is a file; name a folder.")
        begin = len(self._root.rstrip("/")) + 1
        files = {path: about for path, about in found.items() if about.get("type", "file") == "file"}
        return {path[begin:]: int(about["size"] or 0) for path, about in files.items()}

    def put(self, path: Path, name: str) -> None:
        with self._written(name) as target:
            self._files.put_file(str(path), target)

    def write(self, name: str, content: bytes) -> None:
        with self._written(name) as target:
            self._files.pipe_file(target, content)

    @contextmanager
    def _written(self, name: str) -> Iterator[str]:
        """The path to write ``name`` to. In a folder, a finished file is renamed; an object store needs no rename."""
        with self._failing(f"write {name} to"):
            if not self._is_object_store:
                self._files.makedirs(self._path(PurePosixPath(name).parent), exist_ok=True)
            if not getattr(self._files, "local_file", False):
                yield self._path(name)
                return
            self._files.makedirs(self._path("partial"), exist_ok=True)
            partial = self._path(f"partial/{uuid.uuid4().hex}")
            yield partial
            Path(partial).replace(self._path(name))

    def read(self, name: str) -> bytes:
        """A file of a list. Raises DamagedError if it is missing, or larger than any list."""
        with self._failing(f"read {name} of"):
            try:
                with self._files.open(self._path(name), "rb") as source:
                    content = bytes(source.read(MOST_LIST_BYTES + 1))
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None
        if len(content) > MOST_LIST_BYTES:
            raise DamagedError(f"{name} has more than {MOST_LIST_BYTES:,} bytes")
        return content

    def get(self, name: str, target: Path, most_bytes: int, digest: str) -> None:
        """Fetch a file. Raises DamagedError if it is missing, longer than ``most_bytes``, or has another ``digest``."""
        target.parent.mkdir(parents=True, exist_ok=True)
        left = most_bytes
        with self._failing(f"read {name} of"):
            try:
                with self._files.open(self._path(name), "rb") as source, target.open("wb") as file:
                    while left >= 0 and (block := source.read(min(_BLOCK_BYTES, left + 1))):
                        file.write(block)
                        left -= len(block)
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None
        if left < 0 or file_checksum(target) != digest:
            raise DamagedError(f"{name} has other bytes than were sent")

    def checksum(self, name: str) -> str:
        """The checksum of a file, which may be large. Raises DamagedError if it is missing."""
        with self._failing(f"read {name} of"):
            try:
                with self._files.open(self._path(name), "rb") as source:
                    return checksum_of(iter(lambda: source.read(_BLOCK_BYTES), b""))
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None

    def _path(self, name: str | PurePosixPath) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn any error of a client into a RunError that names the URL."""
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
