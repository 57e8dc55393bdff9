"""Finished work under a URL, for other machines: whatever fsspec reaches (a folder, S3, GCS, SSH, ...).

    objects/<checksum>                         a file of a stage, under the checksum of its bytes (XXH3, 128 bits)
    stages/<kind>/<fingerprint>.json           the files of a stage; written last, so a stage is whole or absent
    rows/<kind>/<name>/<checksum>.sqlite       rows of a growing cache, and their keys in <checksum>.keys
    rows/<kind>/<name>/<fingerprint>.json      the files of a shard of such a cache
    rows/answers/<name>/<checksum>.jsonl       answers of custom retrievers and chat models
    partial/                                   files of a folder on their way; what is left there is of a killed push

What is there already is not sent again, so a push or a pull that was stopped continues. Several machines may push at
once: no file is ever changed, and each appears whole.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ragtrial.cache.atomic import new_folder
from ragtrial.cache.fingerprints import DIGEST_BYTES, checksum, file_checksum, fingerprint
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.cache.remote import files_of
from ragtrial.cache.seals import DamagedError, check_bytes
from ragtrial.cache.shard_files import SUFFIX
from ragtrial.cache.shared_files import SharedFiles
from ragtrial.cache.upkeep import ANSWERS, ROW_CACHES, Entry
from ragtrial.cache.vectors import Keys, VectorCache
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import InputError, did_you_mean, listed

_STAY = {"latency": "a measurement of this machine", "unfinished": "not finished"}
_STAGE = re.compile(r"stages/([a-z0-9_-]+)/([0-9a-f]{32}(?:-[0-9]+)*)\.json")
_ROWS = re.compile(r"rows/([a-z0-9_-]+)/([0-9A-Za-z_-]+)/([0-9a-f]{32})\.(?:sqlite|jsonl)")
_SHARD = re.compile(r"rows/([a-z0-9_-]+)/([0-9A-Za-z_-]+)/([0-9a-f]{32})\.json")
_ROWS_AT_ONCE = 10_000


@dataclass
class Transfer:
    """What a push or a pull did.

    ``moved`` and ``present`` are what was copied and what was there already, in words; ``left`` is what was not copied,
    with the reason. ``bytes`` counts what was copied.
    """

    moved: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


class SharedCache:
    """The finished work under ``url``; ``name`` is the URL without a password.

    Raises InputError if no package can reach such a URL, and RunError if the other side fails.
    """

    def __init__(self, url: str) -> None:
        self._files = SharedFiles(url)
        self.name = self._files.name

    def push(
        self, entries: Collection[Entry], *, verify: bool = False, advance: Callable[[int], None] = lambda _: None
    ) -> Transfer:
        """Send what is not there yet. With ``verify`` objects that are there are read, and damaged ones sent again.

        Raises RunError if the other side fails; what was sent stays there.
        """
        made = Transfer()
        there = self._files.listed()
        for entry in entries:
            try:
                if why := self._why_it_stays(entry):
                    made.left.append((entry.what, why))
                elif entry.kind == ANSWERS:
                    self._push_answers(entry, there, made)
                elif entry.kind in ROW_CACHES:
                    self._push_rows(entry, there, made, verify=verify)
                else:
                    self._push_stage(entry, there, made, verify=verify)
            except DamagedError as error:
                made.damaged.append((entry.what, f"{error}; `ragtrial cache verify` removes it"))
            advance(entry.size)
        return made

    def listed(self) -> Mapping[str, int]:
        """The files there, and their sizes. Raises RunError if the other side fails."""
        return self._files.listed()

    def pull(
        self,
        workspace: Workspace,
        there: Mapping[str, int],
        experiment: str | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Transfer:
        """Fetch what ``workspace`` lacks, or what ``experiment`` used of it; every file is checked by its checksum.

        ``there`` is what was ``listed``; ``advance`` is called for each file that was looked at.

        Raises InputError for an experiment that nothing was pushed of, and RunError if the other side fails; what was
        fetched stays.
        """
        made, experiments = Transfer(), set[str]()
        for name in sorted(there):
            is_whole = not name.endswith(".sqlite") or _keys_of(name) in there  # else a push was stopped
            if found := _STAGE.fullmatch(name):
                experiments.update(self._pull_stage(workspace, found[1], found[2], experiment, made))
            elif (found := _ROWS.fullmatch(name)) and experiment is None and is_whole:
                self._pull_rows(workspace, name, found[1], found[2], found[3], made)
            elif (found := _SHARD.fullmatch(name)) and experiment is None:
                self._pull_shard(workspace, name, found[1], found[2], found[3], made)
            advance(1)
        if experiment is not None and experiment not in experiments and not made.damaged:
            near, known = did_you_mean(experiment, experiments), listed(sorted(experiments)) or "none"
            raise InputError(f"{self.name} has no stages of the experiment {experiment!r}.{near} It has: {known}.")
        return made

    def send_rows(self, kind: str, cache: VectorCache, keys: Keys) -> int:
        """Send the rows of ``keys``, which ``cache`` has, as one pack; its size in bytes. Raises RunError."""
        folder = _folder_of(kind, cache.path.stem)
        with tempfile.TemporaryDirectory(prefix="ragtrial-push-") as scratch:
            pack = Path(scratch) / "rows.sqlite"
            with VectorCache(pack, cache.what) as copy:
                _copy(cache, copy, keys)
            digest = file_checksum(pack)
            self._files.put(pack, f"{folder}/{digest}.sqlite")
            self._files.write(f"{folder}/{digest}.keys", keys.tobytes())
            return pack.stat().st_size

    # --- stages

    def _push_stage(self, entry: Entry, there: Mapping[str, int], made: Transfer, *, verify: bool) -> None:
        name = f"stages/{entry.kind}/{entry.path.name}.json"
        known = self._manifest(name) if name in there else None
        experiments = sorted({*entry.experiments, *(known or {}).get("experiments", ())})
        about = {"what": entry.what, "experiments": experiments}
        moved = self._send_folder(entry.path, name, about, known, there, verify=verify)
        made.bytes += moved
        (made.moved if moved or known is None else made.present).append(entry.what)

    def _send_folder(
        self,
        folder: Path,
        name: str,
        about: Mapping[str, Any],
        known: Mapping[str, Any] | None,
        there: Mapping[str, int],
        *,
        verify: bool,
    ) -> int:
        """Send the files of a sealed folder, and then their list with what is said ``about`` it; how many bytes."""
        check_bytes(folder)
        files: dict[str, list[int | str]] = {
            path.relative_to(folder).as_posix(): [path.stat().st_size, file_checksum(path)]
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        moved = 0
        for path, (size, digest) in files.items():
            target = f"objects/{digest}"
            if there.get(target) != size or (verify and self._files.checksum(target) != digest):
                self._files.put(folder / path, target)
                moved += int(size)
        manifest = {**about, "files": files}
        if known != manifest:
            self._files.write(name, json.dumps({**manifest, "checksum": fingerprint(manifest)}).encode())
        return moved

    def _pull_stage(
        self, workspace: Workspace, kind: str, name: str, experiment: str | None, made: Transfer
    ) -> Collection[str]:
        """Fetch a stage, unless it is of other experiments than ``experiment``; the experiments that used it."""
        manifest = self._manifest(f"stages/{kind}/{name}.json")
        if manifest is None:
            made.damaged.append((f"{kind} {name}", "its list of files is damaged; push it again"))
            return ()
        what, experiments = str(manifest["what"]), manifest["experiments"]
        if experiment is None or experiment in experiments:
            self._fetch(workspace, kind, name, manifest["files"], what, made)
        return list(map(str, experiments))

    def _fetch(
        self, workspace: Workspace, kind: str, name: str, files: Mapping[str, Any], what: str, made: Transfer
    ) -> None:
        with workspace.lock(f"{kind}-{name}", what):
            if workspace.has(kind, name):
                made.present.append(what)
                return
            if workspace.damage(kind, name):
                workspace.drop(kind, name)
            self._fetch_folder(workspace.path(kind, name), files, what, made)

    def _fetch_folder(self, target: Path, files: Mapping[str, Any], what: str, made: Transfer) -> None:
        try:
            with new_folder(target) as folder:
                for path, (size, digest) in files.items():
                    self._files.get(f"objects/{digest}", folder / _inside(path), size, digest)
                made.bytes += check_bytes(folder).size
        except DamagedError as error:
            made.damaged.append((what, f"{error}; `ragtrial cache push --verify` from a machine that has it"))
        else:
            made.moved.append(what)

    def _manifest(self, name: str) -> dict[str, Any] | None:
        """The list of a stage's files; None if it is damaged, or if nobody can read it."""
        try:
            found = json.loads(self._files.read(name))
            own = found.pop("checksum")
            return found if own == fingerprint(found) else None
        except (ValueError, KeyError, AttributeError):
            return None

    # --- rows of growing caches

    def _push_rows(self, entry: Entry, there: Mapping[str, int], made: Transfer, *, verify: bool) -> None:
        folder = f"{_folder_of(entry.kind, entry.path.stem)}/"
        sent = self._sent_keys(name for name in there if name.startswith(folder))
        known = {key.tobytes() for keys in sent for key in keys}
        with VectorCache(entry.path, as_it_is=True) as cache:
            moved = sum(
                self._push_shard(cache, one, f"{folder}{one.name}.json", there, verify=verify)
                for one in cache.shards.folders()
            )
            keys = cache.keys_in_database()
            new = keys[np.array([key.tobytes() not in known for key in keys], dtype=np.bool_)]
            new = new[~cache.missing(new)]  # without rows that are damaged
            if len(new):
                moved += self.send_rows(entry.kind, cache, new)
        made.bytes += moved
        (made.moved if moved else made.present).append(entry.what)

    def _push_shard(
        self, cache: VectorCache, folder: Path, name: str, there: Mapping[str, int], *, verify: bool
    ) -> int:
        known = self._manifest(name) if name in there else None
        about = {"what": cache.what, "dimension": cache.dimension()}
        return self._send_folder(folder, name, about, known, there, verify=verify)

    def _pull_shard(self, workspace: Workspace, name: str, kind: str, cache: str, shard: str, made: Transfer) -> None:
        manifest = self._manifest(name)
        if manifest is None:
            made.damaged.append((name, "its list of files is damaged; push it again"))
            return
        what, path = f"a shard of {manifest['what']}", workspace.root / kind / f"{cache}.sqlite"
        target = path.with_suffix(SUFFIX) / shard
        with workspace.lock(f"{kind}-{cache}-{shard}", what), VectorCache(path, manifest["what"]) as rows:
            if target.exists():  # whole, or the cache would have removed it
                made.present.append(what)
                return
            if why := _why_not_beside(rows, manifest["dimension"]):
                made.damaged.append((what, why))
                return
            self._fetch_folder(target, manifest["files"], what, made)

    def _sent_keys(self, names: Iterable[str]) -> Iterator[Keys]:
        """The keys of each pack among ``names``; of one whose list of keys is damaged nobody knows what it has."""
        there = set(names)
        for name in sorted(there):
            if name.endswith(".sqlite") and _keys_of(name) in there:
                with suppress(DamagedError):
                    yield _keys(self._files.read(_keys_of(name)))

    def _push_answers(self, entry: Entry, there: Mapping[str, int], made: Transfer) -> None:
        folder = f"rows/{ANSWERS}/{entry.path.stem}"
        known = {fingerprint(row) for name in there if name.startswith(f"{folder}/") for row in self._lines(name)}
        new = [row for row in read_rows(entry.path) if fingerprint(row) not in known]
        if not new:
            made.present.append(entry.what)
            return
        content = b"".join(map(_line, new))
        self._files.write(f"{folder}/{checksum(content)}.jsonl", content)
        made.bytes += len(content)
        made.moved.append(entry.what)

    def _pull_rows(self, workspace: Workspace, name: str, kind: str, cache: str, digest: str, made: Transfer) -> None:
        what = f"{kind} {cache}"
        try:
            if kind == ANSWERS:
                target = workspace.root / kind / f"{cache}.jsonl"
                known = {fingerprint(row) for row in read_rows(target)}
                new = [row for row in self._lines(name) if fingerprint(row) not in known]
                for row in new:
                    append_row(target, row)
                    made.bytes += len(_line(row))
            else:
                new = self._pulled_rows(kind, workspace.root / kind / f"{cache}.sqlite", name, digest, made)
        except DamagedError as error:
            made.damaged.append((what, f"{error}; its rows are made again where they are needed"))
            return
        (made.moved if new else made.present).append(what)

    def _pulled_rows(self, kind: str, target: Path, name: str, digest: str, made: Transfer) -> list[Any]:
        with VectorCache(target) as cache:
            keys = _keys(self._files.read(_keys_of(name)))
            if not cache.missing(keys, unread=True).any():
                return []
            with tempfile.TemporaryDirectory(prefix="ragtrial-pull-") as scratch:
                pack = Path(scratch) / "rows.sqlite"
                self._files.get(name, pack, None, digest)
                made.bytes += pack.stat().st_size
                with VectorCache(pack, as_it_is=True) as found:
                    if kind == "vectors" and (why := _why_not_beside(cache, found.dimension())):
                        raise DamagedError(why)
                    cache.name(found.what)
                    keys = found.keys_in_database()
                    new = keys[cache.missing(keys, unread=True)]
                    _copy(found, cache, new)
            if kind == "vectors":
                cache.compact()
        return list(new)

    def _lines(self, name: str) -> list[Any]:
        content = self._files.read(name)
        if checksum(content) != PurePosixPath(name).stem:
            raise DamagedError(f"{name} has other bytes than were sent")
        return [json.loads(line) for line in content.decode().splitlines()]

    def _why_it_stays(self, entry: Entry) -> str | None:
        if entry.kind in _STAY:
            return _STAY[entry.kind]
        if entry.path.is_dir() and files_of(entry.path):
            return "an index on a server"
        return None


def _why_not_beside(cache: VectorCache, dimension: int | None) -> str | None:
    """Why vectors of ``dimension`` must not be beside those of ``cache``; None where they may be."""
    own = cache.dimension()
    if own is None or dimension is None or own == dimension:
        return None
    return f"its vectors have {dimension:,} dimensions and those here {own:,}: they are of another model"


def _inside(path: str) -> PurePosixPath:
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or "\\" in path:
        raise DamagedError(f"{path!r} is outside of the stage")
    return found


def _line(row: Any) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _folder_of(kind: str, name: str) -> str:
    return f"rows/{kind}/{name}"


def _keys_of(pack: str) -> str:
    return pack.removesuffix(".sqlite") + ".keys"


def _keys(content: bytes) -> Keys:
    if len(content) % DIGEST_BYTES:
        raise DamagedError("a list of keys is cut")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def _copy(source: VectorCache, target: VectorCache, keys: Keys) -> None:
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        block = keys[start : start + _ROWS_AT_ONCE]
        rows = [np.frombuffer(row, dtype=np.uint8) for row in source.read_each(block)]
        target.write(block, rows, source.costs(block))
    if (probe := source.probe()) is not None:
        target.keep_probe(*probe)
