"""Finished work under a URL, for other machines: whatever fsspec reaches (a folder, S3, GCS, SSH, ...).

    stages/<kind>/<fingerprint>              a stage: the length of a JSON text, the text, files one after another
    rows/<kind>/<name>/<checksum>.rows       rows of a growing cache, and their keys in <checksum>.keys
    rows/answers/<name>/<checksum>.jsonl     answers of custom retrievers and chat models
    partial/                                 files of a folder on their way; leftovers belong to killed pushes

An entry that is there is not sent again, so an interrupted push or pull continues. Several machines may push at once:
each file appears whole. The files there are not trusted: an invalid entry is named and skipped.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from ragtrial.cache.atomic import new_folder
from ragtrial.cache.fingerprints import DIGEST_BYTES, checksum, fingerprint, text_key
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.cache.remote import REMOTE, files_of
from ragtrial.cache.seals import DamagedError, Seal, check_bytes
from ragtrial.cache.untrusted import load_json
from ragtrial.cache.upkeep import ANSWERS, GROWING, ROW_CACHES, Entry
from ragtrial.cache.vectors import Costs, Keys, VectorCache, are_of_one_model, check_model, keys_in
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import InputError, RagtrialError, WorkspaceError
from ragtrial.progress import Advance
from ragtrial.rankings import Floats

_STAY = {"latency": "a measurement of this machine", "unfinished": "not finished"}
_NO_STAGES = frozenset({*_STAY, *GROWING, "uses", "locks"})
_STAGE = re.compile(r"stages/([a-z0-9_-]{1,40})/([0-9a-f]{32}(?:-[0-9]{1,10}){0,4})")
_ROWS = re.compile(r"rows/([a-z0-9_-]{1,40})/([0-9A-Za-z_-]{1,100})/([0-9a-f]{32})\.(rows|jsonl)")
_ANSWERS = ({"key", "reply"}, {"query", "hits", "asked", "unlocated"})
"""The keys of the rows of answers: of chat models, and of custom retrievers."""

_MOST_LIST_BYTES = 32_000_000
_NUMBER_BYTES = 8
_MOST_LINE_BYTES = 4_000_000
_PACK_BYTES = 2**25
_MOST_PACK_BYTES = 2**27
"""The most bytes of a pack, whose last row may have all the tokens of a long document."""

_BLOCK_BYTES = 1_000_000
_ROWS_AT_ONCE = 1_000
_MOST_PART, _MOST_PATH = 255, 1_000
"""Bytes of a name and of a path, as file systems allow them."""


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
    def open_file(self, name: str) -> Iterator[IO[bytes]]:
        """A file, open for reading. Raises DamagedError if it is missing."""
        with self._failing(f"read {name} of"):
            try:
                with self._files.open(f"{self._root}/{name}", "rb") as file:
                    yield file
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None

    def read(self, name: str, most_bytes: int) -> bytes:
        """All bytes of a file. Raises DamagedError if it is missing, or larger than ``most_bytes``."""
        with self.open_file(name) as file:
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


@dataclass
class Transfer:
    """The result of a push or a pull.

    ``moved`` and ``present`` describe the entries that were copied and those already there; ``left`` the entries that
    were not copied, with the reason; ``damaged`` the damaged entries, with the fault. ``bytes`` counts copied bytes.
    """

    moved: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0

    def add(self, what: str, moved: int) -> None:
        """An entry of which ``moved`` bytes were copied; with none it was there already."""
        (self.moved if moved else self.present).append(what)
        self.bytes += moved


class SharedCache:
    """The finished work under ``url``; ``name`` is the URL without a password.

    Raises InputError if no package can reach such a URL, and WorkspaceError if the other side fails.
    """

    def __init__(self, url: str) -> None:
        self._files = SharedFiles(url)
        self.name = self._files.name
        self.listed = self._files.listed
        """The files there, and their sizes."""

    def push(self, entries: Collection[Entry], advance: Advance = lambda _: None) -> Transfer:
        """Send everything that is not there yet.

        Raises WorkspaceError if the other side fails; files already sent stay there.
        """
        transfer, there = Transfer(), self.listed()
        for entry in entries:
            try:
                if entry.kind in _STAY or (entry.path.is_dir() and files_of(entry.path)):
                    transfer.left.append((entry.what, _STAY.get(entry.kind, "an index on a server")))
                elif entry.kind == ANSWERS:
                    transfer.add(entry.what, self._push_answers(entry.path, there))
                elif entry.kind in ROW_CACHES:
                    transfer.add(entry.what, self._push_rows(entry, there))
                else:
                    transfer.add(entry.what, self._push_stage(entry, there))
            except DamagedError as error:
                transfer.damaged.append((entry.what, f"{error}; `ragtrial cache verify` removes it"))
            advance(entry.size)
        return transfer

    def _push_stage(self, entry: Entry, there: Mapping[str, int]) -> int:
        name = f"stages/{entry.kind}/{entry.path.name}"
        check_bytes(entry.path)
        if name in there:
            with suppress(DamagedError), self._files.open_file(name) as source:
                _sizes(source, there[name])
                return 0  # it is as long as it should be
        files = [path for path in sorted(entry.path.rglob("*")) if path.is_file()]
        sizes = {path.relative_to(entry.path).as_posix(): path.stat().st_size for path in files}
        self._files.write(name, _stage_blocks(sizes, files))
        return sum(sizes.values())

    def _push_rows(self, entry: Entry, there: Mapping[str, int]) -> int:
        check_model(entry.path)
        folder, moved = f"rows/{entry.kind}/{entry.path.stem}/", 0
        lists = [self._keys(name) for name in there if name.startswith(folder) and _keys_file(name) in there]
        known = {key.tobytes() for keys in lists for key in keys}
        with VectorCache(entry.path, as_it_is=True) as cache:
            keys = cache.keys()
            new = keys[np.array([key.tobytes() not in known for key in keys], dtype=np.bool_)]
            for block, content in _packs(cache, new[~cache.missing(new)]):  # without rows that are damaged
                digest = checksum(block.tobytes(), content)
                self._files.write(f"{folder}{digest}.rows", [content])
                self._files.write(f"{folder}{digest}.keys", [block.tobytes()])
                moved += len(content)
        return moved

    def _push_answers(self, path: Path, there: Mapping[str, int]) -> int:
        folder = f"rows/{ANSWERS}/{path.stem}/"
        sent = [row for name in there if name.startswith(folder) for row in self._answers(name)]
        known = set(map(fingerprint, sent))
        content = b"".join(json.dumps(row).encode() + b"\n" for row in read_rows(path) if fingerprint(row) not in known)
        if content:
            self._files.write(f"{folder}{checksum(content)}.jsonl", [content])
        return len(content)

    def pull(self, workspace: Workspace, there: Mapping[str, int], advance: Advance = lambda _: None) -> Transfer:
        """Fetch the entries that ``workspace`` lacks; all bytes are checked.

        ``there`` is the result of ``listed``; ``advance`` is called for each file of it. Raises WorkspaceError if the
        other side fails; files already fetched stay.
        """
        transfer = Transfer()
        for name, size in there.items():
            what = name
            try:
                if found := _STAGE.fullmatch(name):
                    what = f"{found[1]} {found[2]}"
                    transfer.add(*self._pull_stage(found[1], found[2], workspace, size))
                elif found := _ROWS.fullmatch(name):
                    what = f"{found[1]} {found[2]}"
                    if found[4] == "jsonl" or _keys_file(name) in there:  # else a push was stopped
                        transfer.add(what, self._pull_rows(found[1], found[2], name, workspace.root))
            except DamagedError as error:
                transfer.damaged.append((what, str(error)))
            advance(1)
        return transfer

    def _pull_stage(self, kind: str, key: str, workspace: Workspace, size: int) -> tuple[str, int]:
        """Its description, and the bytes that were fetched."""
        if kind in _NO_STAGES:
            raise DamagedError("no stage of this kind is shared")
        with workspace.lock(f"{kind}-{key}", f"{kind} {key}"):
            if workspace.has(kind, key):
                return workspace.seal(kind, key).what, 0
            target, name = workspace.path(kind, key), f"stages/{kind}/{key}"
            if target.exists():
                workspace.drop(kind, key)
            try:
                with new_folder(target) as folder:
                    seal = self._fetch_stage(name, size, folder, target)
            except DamagedError as error:
                again = "delete that file there, and `ragtrial cache push` from a machine that has it"
                raise DamagedError(f"{name}: {error}; {again}") from error
        return seal.what, size

    def _fetch_stage(self, name: str, size: int, folder: Path, target: Path) -> Seal:
        """Fetch the files of the stage ``target`` into ``folder``; its seal. Raises DamagedError."""
        with self._files.open_file(name) as source:
            for path, left in _sizes(source, size).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                with (folder / path).open("wb") as file:
                    while left and (block := source.read(min(_BLOCK_BYTES, left))):
                        file.write(block)
                        left -= len(block)
        return check_bytes(folder, stands=target)

    def _pull_rows(self, kind: str, model: str, name: str, root: Path) -> int:
        if kind == ANSWERS and name.endswith(".jsonl"):
            target = root / ANSWERS / f"{model}.jsonl"
            rows, known = self._answers(name), {fingerprint(row) for row in read_rows(target)}
            new = [row for row in rows if fingerprint(row) not in known]
            for row in new:
                append_row(target, row)
            return sum(len(str(row)) for row in new)
        if kind not in ROW_CACHES or not name.endswith(".rows"):
            raise DamagedError("no rows of this kind are shared")
        keys = self._keys(name)
        with VectorCache(root / kind / f"{model}.sqlite") as cache:
            is_absent = cache.missing(keys, unchecked=True)
            if not is_absent.any():
                return 0
            content = self._files.read(name, _MOST_PACK_BYTES)
            if checksum(keys.tobytes(), content) != PurePosixPath(name).stem:
                raise DamagedError(f"{name} has other bytes than were sent")
            pack = _pack_in(content, keys, model)
            if kind == "vectors":
                _check_vectors(pack, cache)
            cache.describe(pack.what)
            cache.write(keys[is_absent], [pack.rows[row] for row in np.flatnonzero(is_absent)], pack.costs[is_absent])
            if pack.probe is not None:
                cache.keep_probe(*pack.probe)
        return len(content)

    def _keys(self, pack: str) -> Keys:
        content = self._files.read(_keys_file(pack), _MOST_LIST_BYTES)
        if len(content) % DIGEST_BYTES:
            raise DamagedError("a list of keys is cut")
        return keys_in(content)

    def _answers(self, name: str) -> list[Any]:
        """The rows of a file of answers. Raises DamagedError if its checksum is wrong, or a row is not an answer."""
        content, rows = self._files.read(name, _MOST_LIST_BYTES), []
        if checksum(content) != PurePosixPath(name).stem:
            raise DamagedError(f"{name} has other bytes than were sent")
        for line in content.splitlines():
            try:
                row = load_json(line) if len(line) <= _MOST_LINE_BYTES else None
            except ValueError as error:
                raise DamagedError(f"{name} has a line that is no answer: {error}") from error
            if not isinstance(row, dict) or set(row) not in _ANSWERS:
                raise DamagedError(f"{name} has a line that is no answer")
            rows.append(row)
        return rows


# --- stages


def _stage_blocks(sizes: Mapping[str, int], files: Collection[Path]) -> Iterator[bytes]:
    line = json.dumps(sizes).encode()
    yield len(line).to_bytes(_NUMBER_BYTES, "little") + line
    for path in files:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(_BLOCK_BYTES), b"")


def _sizes(source: IO[bytes], total: int) -> dict[str, int]:
    """The size of each file of a stage, by path. Raises DamagedError if they are not what `cache push` writes."""
    length = int.from_bytes(source.read(_NUMBER_BYTES), "little")
    line = source.read(min(length, _MOST_LIST_BYTES))
    try:
        sizes = load_json(line)
        if not isinstance(sizes, dict) or any(type(size) is not int or size < 0 for size in sizes.values()):
            raise ValueError("it has no sizes")
    except ValueError as error:
        raise DamagedError("its list of files is damaged") from error
    if _NUMBER_BYTES + len(line) + sum(sizes.values()) != total:
        raise DamagedError("it has other bytes than were sent")
    for path in sizes:
        _check_path(path)
    names = [path.casefold() for path in sizes]
    folders = {str(parent).casefold() for path in sizes for parent in PurePosixPath(path).parents}
    if folders & set(names) or len(set(names)) < len(names):
        raise DamagedError("two of its files have one name")
    return sizes


def _check_path(path: str) -> None:
    """Raise DamagedError if ``path`` is not a valid name of a file in a stage, or names a server."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or "\\" in path:
        raise DamagedError(f"{path[:80]!r} is outside of the stage")
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in relative.parts]
    is_long = sum(sizes) > _MOST_PATH or any(size > _MOST_PART for size in sizes)
    if not relative.parts or str(relative) != path or not path.isprintable() or is_long:
        raise DamagedError(f"{path[:80]!r} is no name of a file")
    if any(part.casefold() == REMOTE for part in relative.parts):
        raise DamagedError("it is an index on a server, which nobody else may name")


# --- packs of rows


class _Pack(NamedTuple):
    """Rows of a growing cache: the description of the model, its probe, and the bytes and the costs of each key."""

    what: str
    probe: tuple[str, Floats] | None
    keys: Keys
    rows: list[npt.NDArray[np.uint8]]
    costs: Costs


def _keys_file(pack: str) -> str:
    return pack.removesuffix(".rows") + ".keys"


def _packs(cache: VectorCache, keys: Keys) -> Iterator[tuple[Keys, bytes]]:
    """The rows of ``keys`` in packs: a line of JSON, the lengths of the probe and of the rows, costs, probe, rows."""
    probe = cache.probe()
    content = {"model": cache.path.stem, "what": cache.description, "probe": probe and probe[0]}
    about = json.dumps(content).encode() + b"\n"
    vector, rows, begin = b"" if probe is None else probe[1].tobytes(), list[bytes](), 0
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        rows += cache.read_each(keys[start : start + _ROWS_AT_ONCE])
        end = begin + len(rows)
        if end == len(keys) or sum(map(len, rows)) > _PACK_BYTES:
            lengths = np.array([len(vector), *map(len, rows)], dtype=np.int64)
            costs = cache.costs(keys[begin:end])
            yield keys[begin:end], b"".join([about, lengths.tobytes(), costs.tobytes(), vector, *rows])
            rows, begin = [], end


def _pack_in(content: bytes, keys: Keys, model: str) -> _Pack:
    """The pack of ``keys`` in ``content``. Raises DamagedError for anything that ``_packs`` does not write."""
    begin, count = content.find(b"\n") + 1, len(keys)
    try:
        about = load_json(content[:begin])
        lengths = np.frombuffer(content, np.int64, count + 1, begin).tolist()
        costs = np.frombuffer(content, np.float64, 2 * count, begin + 8 * (count + 1)).reshape(-1, 2)
        what, text = str(about["what"]), about["probe"]
        if about["model"] != model or not isinstance(text, str | None):
            raise DamagedError("its rows are of another model")
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedError(f"it cannot be read: {error}") from error
    start = begin + 8 * (count + 1) + 16 * count
    if min(lengths) < 0 or start + sum(lengths) != len(content) or lengths[0] % 4:
        raise DamagedError("its rows have other lengths")
    ends = start + np.cumsum(lengths)
    parts = (np.frombuffer(content, np.uint8, size, end - size) for end, size in zip(ends, lengths, strict=True))
    vector, *rows = parts
    return _Pack(what, None if text is None else (text, vector.view(np.float32)), keys, rows, costs)


def _check_vectors(pack: _Pack, cache: VectorCache) -> None:
    """Raise DamagedError if the vectors are not of the model of ``cache``: an endpoint may have changed it."""
    again = "its rows are made again where they are needed"
    dimension, left = divmod(len(pack.rows[0]), 4)
    if left or not dimension or any(len(row) != 4 * dimension for row in pack.rows):
        raise DamagedError("its vectors are not of one dimension")
    vectors = np.stack(pack.rows).view(np.float32)
    if not np.isfinite(vectors).all():
        raise DamagedError("a vector has a number that is not finite")
    if cache.dimension() not in (None, dimension):
        has = f"its vectors have {dimension:,} dimensions and those here {cache.dimension():,}"
        raise DamagedError(f"{has}: they are of another model; {again}")
    for text, vector in filter(None, (cache.probe(), pack.probe)):
        key = keys_in(text_key(text))
        others = [*vectors[(pack.keys == key).all(axis=1)]]
        others += [] if cache.missing(key, unchecked=True)[0] else [*cache.read(key)]
        if not all(are_of_one_model(vector, other) for other in others):
            why = "a text has another vector there: its vectors are of another model of the same name"
            raise DamagedError(f"{why}; {again}")
