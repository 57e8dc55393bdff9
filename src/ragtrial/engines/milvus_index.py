"""The kinds of index that Milvus builds. Their options have the names of all stores, and are sent under Milvus's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from ragtrial.options import Options

_WIDEST = 32_768
"""Milvus's highest ef."""

Links = Annotated[int, Field(ge=2, le=2_048)]
Candidates = Annotated[int, Field(ge=1, le=_WIDEST)]
Lists = Annotated[int, Field(ge=1, le=65_536)]
Parameters = Mapping[str, Any]


class MilvusIndexOptions(Options):
    """A kind of index, and its parameters for building and searching."""

    kind: str

    @property
    def engine_name(self) -> str:
        """Its name in Milvus."""
        return self.kind.upper()

    def built(self) -> Parameters:
        """The parameters of a build."""
        return {}

    def searched(self, depth: int) -> Parameters:
        """The parameters of a search for ``depth`` hits."""
        return {}

    def narrowest(self) -> Parameters:
        """The parameters of a search for one hit that considers as few candidates as Milvus allows."""
        return self.searched(1)

    def widest(self, depth: int) -> Parameters:
        """The parameters of a search for ``depth`` hits that finds all that can be found."""
        return self.searched(depth)

    def width(self, depth: int) -> int | None:
        """How many candidates a search for ``depth`` hits considers; see ``Store.width``."""
        return None


class MilvusFlat(MilvusIndexOptions):
    """No index: all vectors are compared."""

    kind: Literal["flat"]
    """Compare all vectors (FLAT)."""


class MilvusGraph(MilvusIndexOptions):
    """A graph, over whole or quantized vectors."""

    kind: Literal["hnsw", "hnsw_sq"] = "hnsw"
    """A graph over whole vectors (HNSW), or over vectors with one byte per number (HNSW_SQ; servers need Milvus
    2.5)."""

    m: Links = 16
    """Links per vector, from 2 to 2,048; a higher value takes more memory and is more exact (Milvus: M)."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; a higher value is slower to build and more exact (Milvus:
    efConstruction)."""

    ef_search: Candidates = 64
    """Candidates considered while searching, up to 32,768; a higher value is slower and more exact (Milvus: ef). A
    search never considers fewer candidates than the requested hits: a server would refuse it, and Milvus Lite would
    miss hits."""

    def built(self) -> Parameters:
        return {"M": self.m, "efConstruction": self.ef_construction}

    def searched(self, depth: int) -> Parameters:
        return {"ef": self.width(depth)}

    def narrowest(self) -> Parameters:
        return {"ef": 1}

    def widest(self, depth: int) -> Parameters:
        return {"ef": max(self.width(depth), min(_WIDEST, 2 * depth))}

    def width(self, depth: int) -> int:
        return max(self.ef_search, depth)


class MilvusIvf(MilvusIndexOptions):
    """Lists of similar vectors; a search compares the vectors of some lists."""

    kind: Literal["ivf_flat", "ivf_sq8"]
    """Lists of whole vectors (IVF_FLAT), or of vectors with one byte per number (IVF_SQ8)."""

    lists: Lists = 128
    """Lists to divide the vectors into, up to 65,536 (Milvus: nlist)."""

    probes: Lists = 8
    """Lists to search (Milvus: nprobe). A higher value is slower and more exact; a low one may return fewer hits than
    requested."""

    @model_validator(mode="after")
    def _probes_are_lists(self) -> Self:
        if "probes" in self.model_fields_set and self.probes > self.lists:
            raise ValueError(f"probes is {self.probes}; it must be at most lists, which is {self.lists}.")
        return self

    def built(self) -> Parameters:
        return {"nlist": self.lists}

    def searched(self, depth: int) -> Parameters:
        return {"nprobe": self.probes}

    def narrowest(self) -> Parameters:
        return {"nprobe": 1}

    def widest(self, depth: int) -> Parameters:
        return {"nprobe": self.lists}


class MilvusOther(MilvusIndexOptions):
    """Any index of Milvus, with parameters that are passed on as they are."""

    kind: Literal["other"]
    """Any kind of index that Milvus has, by its name there."""

    type: Annotated[str, Field(min_length=1)]
    """The kind in Milvus's words, like `DISKANN`, `SCANN` or `AUTOINDEX`."""

    build: dict[str, JsonValue] = Field(default={})
    """Milvus's parameters of the index, like `{nlist: 128}`. The report names the parameters that Milvus ignores."""

    search: dict[str, JsonValue] = Field(default={})
    """Milvus's parameters of a search, like `{nprobe: 8}`."""

    @property
    def engine_name(self) -> str:
        return self.type

    def built(self) -> Parameters:
        return self.build

    def searched(self, depth: int) -> Parameters:
        return self.search

    def width(self, depth: int) -> int:
        return depth


MilvusIndexKind = Annotated[MilvusGraph | MilvusIvf | MilvusOther | MilvusFlat, Field(discriminator="kind")]
