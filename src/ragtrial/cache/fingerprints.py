"""Content hashes: equal content, equal name; on every machine and in every process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DIGEST_BYTES = 16


def fingerprint(value: Any) -> str:
    """The hash of a JSON value, 32 hex digits; the order of keys does not matter, the type of numbers does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def text_key(text: str) -> bytes:
    """The hash of a text, 16 bytes."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def file_digest(path: Path, algorithm: str = "blake2b") -> str:
    """The hash of a file's bytes in hex digits, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def file_checksum(path: Path) -> str:
    """XXH3 (128 bits) of a file's bytes in hex digits: shows damage, not malice, and costs less than reading does."""
    import xxhash

    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def checksum(*parts: bytes | memoryview) -> str:
    """The checksum that ``file_checksum`` gives for a file with these ``parts``."""
    import xxhash

    hashed = xxhash.xxh3_128()
    for part in parts:
        hashed.update(part)
    return str(hashed.hexdigest())


Digest = Callable[[Path], str]
"""A function that hashes the bytes of a file: ``file_digest``, or a cached version of it."""


def files_digest(root: Path, files: Iterable[Path], digest: Digest = file_digest) -> str:
    """The hash of the bytes of several files and of their paths below ``root``; it does not depend on where ``root``
    is.
    """
    return fingerprint([[path.relative_to(root).as_posix(), digest(path)] for path in sorted(files)])
