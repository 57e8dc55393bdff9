"""Lists of files that somebody else has sent: what a stage has, and under which checksums."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.seals import SEAL, DamagedError
from ragtrial.cache.untrusted import load_json

_DIGEST = re.compile(r"[0-9a-f]{32}")
_MOST_PART, _MOST_PATH = 255, 1_000
"""Bytes of a name and of a path, as file systems allow them."""


@dataclass(frozen=True)
class Manifest:
    """``files`` has the size and the checksum of each file by its path."""

    what: str
    files: Mapping[str, tuple[int, str]]
    experiments: tuple[str, ...] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    """All of it, as it was sent."""


def read_manifest(content: bytes) -> Manifest:
    """The list that `cache push` has written. Raises DamagedError for what is none, and for files that may not be."""
    try:
        found = load_json(content)
        own = found.pop("checksum")
        if own != fingerprint(found):
            raise ValueError("it has another checksum")
        what, experiments = found["what"], found.get("experiments", [])
        files = {path: (size, digest) for path, (size, digest) in found["files"].items()}
        texts = [what, *experiments, *(digest for _, digest in files.values())]
        numbers = [size for size, _ in files.values()]
        if not all(isinstance(text, str) for text in texts) or any(type(number) is not int for number in numbers):
            raise TypeError("it has a value of another type")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedError("its list of files is damaged; push it again") from error
    for path, (size, digest) in files.items():
        check_path(path)
        if size < 0 or not _DIGEST.fullmatch(digest):
            raise DamagedError("its list of files is damaged; push it again")
    _refuse_clashes(files)
    if SEAL not in files:
        raise DamagedError(f"it has no {SEAL}")
    return Manifest(what, files, tuple(experiments), found)


def check_path(path: str) -> None:
    """Raise DamagedError for what is no name of a file in a stage, or the name of one that leads to a server."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or "\\" in path:
        raise DamagedError(f"{path[:80]!r} is outside of the stage")
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in found.parts]
    is_long = sum(sizes) > _MOST_PATH or any(size > _MOST_PART for size in sizes)
    if not found.parts or str(found) != path or not path.isprintable() or is_long:
        raise DamagedError(f"{path[:80]!r} is no name of a file")
    if any(part.casefold() == REMOTE for part in found.parts):
        raise DamagedError("it is an index on a server, which nobody else may name")


def _refuse_clashes(files: Mapping[str, object]) -> None:
    """Raise DamagedError if a file would be a folder, too, or two are one where the case of letters is nothing."""
    folders = {str(parent).casefold() for path in files for parent in PurePosixPath(path).parents}
    names = [path.casefold() for path in files]
    if folders & set(names) or len(set(names)) < len(names):
        raise DamagedError("two of its files have one name")
