"""Vectors that are too many for a database: files of some ten thousand, in the order of their keys, each sealed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.atomic import new_folder, remove_folder, remove_partial, write_text
from ragtrial.cache.fingerprints import DIGEST_BYTES
from ragtrial.cache.repairs import say_repaired
from ragtrial.cache.seals import DamagedError, check_bytes, read_seal, seal
from ragtrial.errors import counted
from ragtrial.rankings import Counts, Floats

if TYPE_CHECKING:
    from ragtrial.cache.vectors import Costs, Keys

ROWS_PER_SHARD = 65_536
SUFFIX = ".shards"

_whole: set[str] = set()
"""Shards whose bytes were compared with their checksums in this process, by the ids of their seals."""


@dataclass(frozen=True, eq=False)
class ShardFile:
    """One folder: ``keys`` are sorted, and held in memory; the vectors are opened when some of them are read."""

    folder: Path
    keys: npt.NDArray[np.bytes_]

    def rows(self, wanted: npt.NDArray[np.bytes_]) -> tuple[Counts, Counts]:
        """Which of the sorted keys ``wanted``, where some may be equal, are here, and in which rows."""
        if not len(self.keys):  # they are damaged
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first = np.searchsorted(wanted, self.keys[0])
        near = wanted[first : np.searchsorted(wanted, self.keys[-1], side="right")]
        rows = np.minimum(np.searchsorted(self.keys, near), len(self.keys) - 1)
        here = np.flatnonzero(self.keys[rows] == near)
        return here + first, rows[here]

    def vectors(self) -> Floats:
        """The vectors in the order of the keys, float32 (keys, dimension), mapped. Raises DamagedError, OSError."""
        found = read_seal(self.folder)
        if found.id not in _whole:
            check_bytes(self.folder)
            _whole.add(found.id)
        return read_array(self.folder / "vectors.npy")


class ShardFiles:
    """The shards in ``folder``, which need not be there.

    Damaged ones are removed, as their vectors are made again; with ``as_it_is`` only by ``drop_damaged``.
    """

    def __init__(self, folder: Path, *, as_it_is: bool = False) -> None:
        self.folder = folder
        self._as_it_is = as_it_is
        self._files: dict[str, ShardFile] = {}
        self.refresh()

    def refresh(self) -> bool:
        """See which shards there are now; whether some are new."""
        new = [path for path in sorted(self.folder.glob("[!.]*")) if path.name not in self._files]
        for path in new:
            self._files[path.name] = ShardFile(path, np.empty(0, f"S{DIGEST_BYTES}"))
            with self._dropping(self._files[path.name]):
                check_bytes(path, only="keys.npy")
                self._files[path.name] = ShardFile(path, as_bytes(np.array(read_array(path / "keys.npy"))))
        return bool(new)

    def __bool__(self) -> bool:
        return bool(self._files)

    def folders(self) -> list[Path]:
        """Where the shards are."""
        return [one.folder for one in self._files.values()]

    def __len__(self) -> int:
        """How many vectors they have; one that is in several shards counts several times."""
        return sum(len(one.keys) for one in self._files.values())

    def dimension(self) -> int | None:
        """The dimension of the vectors, None while there are none."""
        for one in list(self._files.values()):
            with self._dropping(one):
                return int(one.vectors().shape[1])
        return None

    def has(self, keys: Keys, *, unread: bool = False) -> npt.NDArray[np.bool_]:
        """Which of ``keys`` have a vector, shape (keys,); those of damaged shards have none, unless ``unread``."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for positions, _, _ in self._found(keys, unread=unread):
            found[positions] = True
        return found

    def read(self, keys: Keys) -> Iterator[tuple[Counts, Floats]]:
        """Positions of ``keys``, and the vectors of these, float32 (positions, dimension), for each shard with some."""
        for positions, rows, vectors in self._found(keys):
            yield positions, vectors[rows]

    def costs(self, keys: Keys) -> Costs:
        """What the vectors of ``keys`` took; see ``VectorCache.costs``."""
        costs = np.full((len(keys), 2), np.nan)
        for one, positions, rows in self._shards_of(keys):
            with self._dropping(one):
                check_bytes(one.folder, only="costs.npy")
                costs[positions] = read_array(one.folder / "costs.npy")[rows]
        return costs

    def probe(self) -> tuple[str, Floats] | None:
        """The text and the vector that tell the model from another one, if a shard has them."""
        for one in list(self._files.values()):
            with self._dropping(one):
                if (one.folder / "probe.json").exists():
                    check_bytes(one.folder, only="probe.json")
                    text, vector = json.loads((one.folder / "probe.json").read_bytes())
                    return text, np.array(vector, dtype=np.float32)
        return None

    def write(self, keys: Keys, vectors: Floats, probe: tuple[str, Floats] | None, costs: Costs) -> None:
        """Keep ``vectors``, float32 (keys, dimension), and what they took under ``keys``, which ascend, as one shard.

        ``probe`` is kept with it: the database, which has it too, may be lost.
        """
        remove_partial(self.folder, left=True)  # by a process that was killed; another one may fetch a shard now
        with (
            suppress(FileExistsError),  # it was fetched just now
            new_folder(stands := self.folder / array_digest(keys)) as folder,
        ):
            write_array(folder / "keys.npy", keys)
            write_array(folder / "vectors.npy", vectors)
            write_array(folder / "costs.npy", costs)
            if probe is not None:
                write_text(folder / "probe.json", json.dumps([probe[0], probe[1].tolist()]))
            seal(folder, counted(len(keys), "vector"), stands=stands)
        self.refresh()

    def drop_damaged(self) -> int:
        """Remove the shards whose bytes were changed; how many vectors they had. Reads them all."""
        lost = 0
        for one in list(self._files.values()):
            try:
                check_bytes(one.folder)
            except DamagedError:
                lost += len(one.keys) or ROWS_PER_SHARD
                self._drop(one)
        return lost

    def _found(self, keys: Keys, *, unread: bool = False) -> Iterator[tuple[Counts, Counts, Floats]]:
        """For each shard with some of ``keys``: their positions, their rows in it, and all of its vectors."""
        for one, positions, rows in self._shards_of(keys):
            with self._dropping(one):
                yield positions, rows, np.empty((0, 0), np.float32) if unread else one.vectors()

    def _shards_of(self, keys: Keys) -> Iterator[tuple[ShardFile, Counts, Counts]]:
        """Each shard with some of ``keys``, their positions, and their rows in it."""
        if not self._files:
            return
        order = np.argsort(as_bytes(keys))
        wanted = as_bytes(keys)[order]
        for one in list(self._files.values()):
            at, rows = one.rows(wanted)
            if len(at):
                yield one, order[at], rows

    @contextmanager
    def _dropping(self, one: ShardFile) -> Iterator[None]:
        """Remove a shard that turns out to be damaged."""
        try:
            yield
        except DamagedError as error:
            if not self._as_it_is:
                say_repaired(one.folder, str(error))
                self._drop(one)

    def _drop(self, one: ShardFile) -> None:
        self._files.pop(one.folder.name, None)
        with suppress(FileNotFoundError):  # another process has removed it
            remove_folder(one.folder)


def as_bytes(keys: Keys) -> npt.NDArray[np.bytes_]:
    """``keys`` as one value each, which are compared byte by byte."""
    return np.ascontiguousarray(keys).view(f"S{DIGEST_BYTES}").ravel()
