"""Finished work under a URL, for other machines: whatever fsspec reaches (a folder, S3, GCS, SSH, ...).

    objects/<checksum>                         a file of a stage, under the checksum of its bytes (XXH3, 128 bits)
    stages/<kind>/<fingerprint>.json           the files of a stage; written last, so a stage is whole or absent
    rows/<kind>/<name>/<checksum>.sqlite       rows of a growing cache, and their keys in <checksum>.keys
    rows/answers/<name>/<checksum>.jsonl       answers of custom retrievers and chat models
    partial/                                   files of a folder on their way; leftovers belong to killed pushes

Files that are there are not sent again, so an interrupted push or pull continues. Several machines may push at
once: no file is ever changed, and each appears whole.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.atomic import TEMPORARY_PREFIX, remove_partial
from ragtrial.cache.fingerprints import checksum, file_checksum, fingerprint
from ragtrial.cache.journal import read_rows
from ragtrial.cache.pulling import STAY, Manifest, Pull, Transfer, keys_of, read_answers, read_manifest
from ragtrial.cache.remote import files_of
from ragtrial.cache.seals import DamagedError, check_bytes
from ragtrial.cache.shared_files import SharedFiles
from ragtrial.cache.upkeep import ANSWERS, ROW_CACHES, Entry
from ragtrial.cache.vectors import Keys, VectorCache, check_model, keys_in
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import InputError, did_you_mean, listed

_ROWS_AT_ONCE = 10_000
_ROWS_IN_PACK = 2**20


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
        """Send everything that is not there yet. With ``verify``, objects there are read, and damaged objects are sent
        again.

        Raises RunError if the other side fails; files already sent stay there.
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
                    check_model(entry.path, entry.path.stem)
                    self._push_rows(entry, there, made)
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
        """Fetch the entries that ``workspace`` lacks, or those that ``experiment`` used; each file is compared with
        its checksum.

        ``there`` is the result of ``listed``; ``advance`` is called for each file of it. Raises InputError if no stage
        of the experiment was pushed, RunError if the other side fails; files already fetched stay.
        """
        pull = Pull(self._files, there, workspace)
        for name in sorted(there):
            pull.take(name, experiment)
            advance(1)
        if experiment is not None and experiment not in pull.experiments and not pull.done.damaged:
            near, known = did_you_mean(experiment, pull.experiments), listed(sorted(pull.experiments)) or "none"
            raise InputError(f"{self.name} has no stages of the experiment {experiment!r}.{near} It has: {known}.")
        return pull.done

    def send_rows(self, kind: str, cache: VectorCache, keys: Keys) -> int:
        """Send the rows of ``keys``, which ``cache`` has, as one pack; its size in bytes. Raises RunError."""
        folder = _folder_of(kind, cache.path.stem)
        beside, prefix = cache.path.parent, f"{TEMPORARY_PREFIX}{cache.path.stem}-"
        remove_partial(beside, cache.path.stem, left=True)  # of a push that was killed
        with tempfile.TemporaryDirectory(prefix=prefix, dir=beside) as scratch:
            pack = Path(scratch) / "rows.sqlite"
            with VectorCache(pack, cache.what, name=cache.path.stem) as copy:
                _copy(cache, copy, keys)
            digest = file_checksum(pack)
            self._files.put(pack, f"{folder}/{digest}.sqlite")
            self._files.write(f"{folder}/{digest}.keys", keys.tobytes())
            return pack.stat().st_size

    # --- stages

    def _push_stage(self, entry: Entry, there: Mapping[str, int], made: Transfer, *, verify: bool) -> None:
        name = f"stages/{entry.kind}/{entry.path.name}.json"
        known = self._known(name, there)
        experiments = sorted({*entry.experiments, *(known.experiments if known else ())})
        folder = entry.path
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
        manifest = {"what": entry.what, "experiments": experiments, "files": files}
        if known is None or known.content != manifest:
            self._files.write(name, json.dumps({**manifest, "checksum": fingerprint(manifest)}).encode())
        made.bytes += moved
        (made.moved if moved or known is None else made.present).append(entry.what)

    def _known(self, name: str, there: Mapping[str, int]) -> Manifest | None:
        """The list that was sent before; None if there is none, or a damaged one."""
        with suppress(DamagedError):
            return read_manifest(self._files.read(name)) if name in there else None
        return None

    # --- rows of growing caches

    def _push_rows(self, entry: Entry, there: Mapping[str, int], made: Transfer) -> None:
        folder = f"{_folder_of(entry.kind, entry.path.stem)}/"
        sent = self._sent_keys(name for name in there if name.startswith(folder))
        known = {key.tobytes() for keys in sent for key in keys}
        with VectorCache(entry.path, as_it_is=True) as cache:
            keys, moved = cache.keys(), 0
            new = keys[np.array([key.tobytes() not in known for key in keys], dtype=np.bool_)]
            new = new[~cache.missing(new)]  # without rows that are damaged
            for start in range(0, len(new), _ROWS_IN_PACK):
                moved += self.send_rows(entry.kind, cache, new[start : start + _ROWS_IN_PACK])
        made.bytes += moved
        (made.moved if moved else made.present).append(entry.what)

    def _sent_keys(self, names: Iterable[str]) -> Iterator[Keys]:
        """The keys of each pack among ``names``. A pack with a damaged list of keys is skipped."""
        there = set(names)
        for name in sorted(there):
            if name.endswith(".sqlite") and keys_of(name) in there:
                with suppress(DamagedError):
                    yield keys_in(self._files.read(keys_of(name)))

    def _push_answers(self, entry: Entry, there: Mapping[str, int], made: Transfer) -> None:
        folder = f"rows/{ANSWERS}/{entry.path.stem}"
        known = {
            fingerprint(row)
            for name in there
            if name.startswith(f"{folder}/")
            for row in read_answers(self._files, name)
        }
        new = [row for row in read_rows(entry.path) if fingerprint(row) not in known]
        if not new:
            made.present.append(entry.what)
            return
        content = b"".join(map(_line, new))
        self._files.write(f"{folder}/{checksum(content)}.jsonl", content)
        made.bytes += len(content)
        made.moved.append(entry.what)

    def _why_it_stays(self, entry: Entry) -> str | None:
        if entry.kind in STAY:
            return STAY[entry.kind]
        if entry.path.is_dir() and files_of(entry.path):
            return "an index on a server"
        return None


def _line(row: Any) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _folder_of(kind: str, name: str) -> str:
    return f"rows/{kind}/{name}"


def _copy(source: VectorCache, target: VectorCache, keys: Keys) -> None:
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        block = keys[start : start + _ROWS_AT_ONCE]
        rows = [np.frombuffer(row, dtype=np.uint8) for row in source.read_each(block)]
        target.write(block, rows, source.costs(block))
    if (probe := source.probe()) is not None:
        target.keep_probe(*probe)
