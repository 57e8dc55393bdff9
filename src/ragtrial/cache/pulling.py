"""Fetching what others have pushed: anyone may have written it, so an entry that is wrong is named and skipped."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ragtrial.cache.atomic import TEMPORARY_PREFIX, new_folder, remove_partial
from ragtrial.cache.fingerprints import DIGEST_BYTES, checksum, fingerprint
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.cache.manifests import Manifest, read_manifest
from ragtrial.cache.packs import MOST_ROW_BYTES, Pack
from ragtrial.cache.seals import DamagedError, check_bytes
from ragtrial.cache.shared_files import SharedFiles
from ragtrial.cache.untrusted import load_json
from ragtrial.cache.upkeep import ANSWERS, GROWING, ROW_CACHES
from ragtrial.cache.vectors import Keys, VectorCache, keys_in
from ragtrial.cache.workspace import Workspace

STAY = {"latency": "a measurement of this machine", "unfinished": "not finished"}
_NO_STAGES = frozenset({*STAY, *GROWING, "uses", "locks"})
_STAGE = re.compile(r"stages/([a-z0-9_-]{1,40})/([0-9a-f]{32}(?:-[0-9]{1,10}){0,4})\.json")
_ROWS = re.compile(r"rows/([a-z0-9_-]{1,40})/([0-9A-Za-z_-]{1,100})/([0-9a-f]{32})\.(sqlite|jsonl)")
_MOST_LINE_BYTES = 4_000_000
_ANSWERS = ({"key", "reply"}, {"query", "hits", "asked", "unlocated"})
"""The keys of the rows of answers: of chat models, and of custom retrievers."""


@dataclass
class Transfer:
    """What a push or a pull did.

    ``moved`` and ``present`` are what was copied and what was there already, in words; ``left`` is what was not copied,
    with the reason, ``damaged`` what is wrong, with the fault. ``bytes`` counts what was copied.
    """

    moved: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


class Pull:
    """A pull from ``files``, which hold what ``there`` lists by size, into ``workspace``; ``done`` has its outcome."""

    def __init__(self, files: SharedFiles, there: Mapping[str, int], workspace: Workspace) -> None:
        self._files = files
        self._there = there
        self._workspace = workspace
        self.done = Transfer()
        self.experiments: set[str] = set()
        """The experiments that used the stages that there are."""

    def take(self, name: str, experiment: str | None) -> None:
        """Fetch the entry that is the file ``name``, if it is one, and of ``experiment``, if that is given.

        An entry that is not as a push writes it is noted as damaged. Raises RunError if the other side fails.
        """
        what = name
        try:
            if found := _STAGE.fullmatch(name):
                what = f"{found[1]} {found[2]}"
                self._take_stage(found[1], found[2], name, experiment)
            elif (found := _ROWS.fullmatch(name)) and experiment is None:
                what = f"{found[1]} {found[2]}"
                self._take_rows(found[1], found[2], name, found[3])
        except DamagedError as error:
            self.done.damaged.append((what, str(error)))

    def _manifest(self, name: str) -> Manifest:
        return read_manifest(self._files.read(name))

    def _take_stage(self, kind: str, key: str, name: str, experiment: str | None) -> None:
        if kind in _NO_STAGES:
            raise DamagedError("no stage of this kind is shared")
        manifest = self._manifest(name)
        self.experiments.update(manifest.experiments)
        if experiment is not None and experiment not in manifest.experiments:
            return
        with self._workspace.lock(f"{kind}-{key}", manifest.what):
            if self._workspace.has(kind, key):
                self.done.present.append(manifest.what)
                return
            if self._workspace.damage(kind, key):
                self._workspace.drop(kind, key)
            self._fetch_folder(self._workspace.path(kind, key), manifest)

    def _fetch_folder(self, target: Path, manifest: Manifest) -> None:
        objects = {digest: size for size, digest in manifest.files.values()}
        again = "`ragtrial cache push --verify` from a machine that has it"
        for digest, size in objects.items():
            listed = self._there.get(f"objects/{digest}")
            if listed != size:
                what_is = "is missing" if listed is None else "has other bytes than were sent"
                raise DamagedError(f"objects/{digest} {what_is}; {again}")
        try:
            with new_folder(target) as folder:
                for path, (size, digest) in manifest.files.items():
                    self._files.get(f"objects/{digest}", folder / path, size, digest)
                self.done.bytes += check_bytes(folder, stands=target).size
        except DamagedError as error:
            raise DamagedError(f"{error}; {again}") from error
        self.done.moved.append(manifest.what)

    def _take_rows(self, kind: str, cache: str, name: str, digest: str) -> None:
        if kind == ANSWERS and name.endswith(".jsonl"):
            is_new = self._take_answers(cache, name)
        elif kind in ROW_CACHES and name.endswith(".sqlite"):
            if keys_of(name) not in self._there:
                return  # a push was stopped
            is_new = self._take_pack(kind, cache, name, digest)
        else:
            raise DamagedError("no rows of this kind are shared")
        (self.done.moved if is_new else self.done.present).append(f"{kind} {cache}")

    def _take_answers(self, cache: str, name: str) -> bool:
        target = self._workspace.root / ANSWERS / f"{cache}.jsonl"
        rows = read_answers(self._files, name)
        known = {fingerprint(row) for row in read_rows(target)}
        new = [row for row in rows if fingerprint(row) not in known]
        for row in new:
            append_row(target, row)
        self.done.bytes += sum(len(str(row)) for row in new)
        return bool(new)

    def _take_pack(self, kind: str, cache: str, name: str, digest: str) -> bool:
        folder = self._workspace.root / kind
        keys = _keys(self._files.read(keys_of(name)))
        with VectorCache(folder / f"{cache}.sqlite") as rows:
            if not rows.missing(keys, unread=True).any():
                return False
            remove_partial(folder, digest, left=True)  # of a pull that was killed
            with tempfile.TemporaryDirectory(prefix=f"{TEMPORARY_PREFIX}{digest}-", dir=folder) as scratch:
                path = Path(scratch) / "rows.sqlite"
                self._files.get(name, path, min(self._there[name], (len(keys) + 1) * MOST_ROW_BYTES), digest)
                pack = Pack(path, cache, len(keys), has_vectors=kind == "vectors")
                self._copy(pack, rows, kind)
                self.done.bytes += path.stat().st_size
        return True

    @staticmethod
    def _copy(pack: Pack, cache: VectorCache, kind: str) -> None:
        again = "its rows are made again where they are needed"
        if kind == "vectors":
            why = _why_not_beside(cache, pack.dimension)
            if why is None and pack.is_of_another_model(cache):
                why = "a text has another vector there: its vectors are of another model of the same name"
            if why is not None:
                raise DamagedError(f"{why}; {again}")
        cache.name(pack.what)
        pack.copy_into(cache)
        if pack.probe is not None:
            cache.keep_probe(*pack.probe)


def read_answers(files: SharedFiles, name: str) -> list[Any]:
    """The rows of a file of answers. Raises DamagedError for other bytes than were sent, and for what is no answer."""
    content = files.read(name)
    if checksum(content) != PurePosixPath(name).stem:
        raise DamagedError(f"{name} has other bytes than were sent")
    rows = []
    for line in content.splitlines():
        try:
            row = load_json(line) if len(line) <= _MOST_LINE_BYTES else None
        except ValueError as error:
            raise DamagedError(f"{name} has a line that is no answer: {error}") from error
        if not isinstance(row, dict) or set(row) not in _ANSWERS:
            raise DamagedError(f"{name} has a line that is no answer")
        rows.append(row)
    return rows


def keys_of(pack: str) -> str:
    """The file of the keys of a pack of rows."""
    return pack.removesuffix(".sqlite") + ".keys"


def _keys(content: bytes) -> Keys:
    if len(content) % DIGEST_BYTES:
        raise DamagedError("a list of keys is cut")
    return keys_in(content)


def _why_not_beside(cache: VectorCache, dimension: int | None) -> str | None:
    """Why vectors of ``dimension`` must not be beside those of ``cache``; None where they may be."""
    own = cache.dimension()
    if own is None or dimension is None or own == dimension:
        return None
    return f"its vectors have {dimension:,} dimensions and those here {own:,}: they are of another model"
