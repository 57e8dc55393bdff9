"""The kinds of index that Milvus builds. Their options have the names of all stores, and are sent under Milvus's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ragtrial.options import Options

_WIDEST = 32_768
"""Milvus's highest ef."""

Links = Annotated[int, Field(ge=2, le=2_048)]
Candidates = Annotated[int, Field(ge=1, le=_WIDEST)]
Lists = Annotated[int, Field(ge=1, le=65_536)]
Parameters = Mapping[str, Any]


class MilvusIndexOptions(Options):
    """A kind of index, and its parameters for building and searching."""

    engine_name: ClassVar[str]
    """Its name in Milvus."""

    in_lite: ClassVar[bool] = False
    """Whether Milvus Lite has it."""

    kind: str

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

    engine_name, in_lite = "FLAT", True

    kind: Literal["flat"]
    """Compare all vectors (FLAT)."""


class MilvusGraph(MilvusIndexOptions):
    """A graph, over whole or quantized vectors."""

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


class MilvusHnsw(MilvusGraph):
    """A graph over whole vectors."""

    engine_name, in_lite = "HNSW", True

    kind: Literal["hnsw"] = "hnsw"
    """A graph over whole vectors (HNSW)."""


class MilvusHnswSq(MilvusGraph):
    """A graph over vectors with one byte per number."""

    engine_name, in_lite = "HNSW_SQ", True

    kind: Literal["hnsw_sq"]
    """A graph over vectors with one byte per number (HNSW_SQ; servers need Milvus 2.5)."""


class MilvusIvf(MilvusIndexOptions):
    """Lists of similar vectors; a search compares the vectors of some lists."""

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


class MilvusIvfFlat(MilvusIvf):
    """Lists of whole vectors."""

    engine_name, in_lite = "IVF_FLAT", True

    kind: Literal["ivf_flat"]
    """Lists of whole vectors (IVF_FLAT)."""


class MilvusIvfSq8(MilvusIvf):
    """Lists of vectors with one byte per number."""

    engine_name, in_lite = "IVF_SQ8", True

    kind: Literal["ivf_sq8"]
    """Lists of vectors with one byte per number (IVF_SQ8)."""


class MilvusIvfPq(MilvusIvf):
    """Lists of product-quantized vectors."""

    engine_name = "IVF_PQ"

    kind: Literal["ivf_pq"]
    """Lists of product-quantized vectors (IVF_PQ; servers only)."""

    m: Annotated[int, Field(ge=1)]
    """Parts to divide a vector into, each stored as one code; must divide the dimension."""

    bits: Annotated[int, Field(ge=1, le=16)] = 8
    """Bits per code (Milvus: nbits)."""

    def built(self) -> Parameters:
        return {**super().built(), "m": self.m, "nbits": self.bits}


class MilvusScann(MilvusIvf):
    """Lists of vectors with four bits per number; the best hits are scored again."""

    engine_name = "SCANN"

    kind: Literal["scann"]
    """Lists of vectors with four bits per number; the best hits are scored again (SCANN; servers only)."""

    reorder_k: Candidates | None = None
    """Hits to score again with the whole vectors (default: the number of requested hits)."""

    def searched(self, depth: int) -> Parameters:
        return {**super().searched(depth), "reorder_k": self.width(depth)}

    def widest(self, depth: int) -> Parameters:
        return {**self.searched(depth), **super().widest(depth)}

    def width(self, depth: int) -> int:
        return max(self.reorder_k or 0, depth)


class MilvusDiskann(MilvusIndexOptions):
    """A graph on the disk."""

    engine_name = "DISKANN"

    kind: Literal["diskann"]
    """A graph on the server's disk (DISKANN; only on servers that are set up for it)."""

    search_list: Candidates = 100
    """Candidates considered while searching; never fewer than the requested hits."""

    def searched(self, depth: int) -> Parameters:
        return {"search_list": self.width(depth)}

    def narrowest(self) -> Parameters:
        return {"search_list": 1}

    def width(self, depth: int) -> int:
        return max(self.search_list, depth)


class MilvusAutoindex(MilvusIndexOptions):
    """The index that Milvus chooses."""

    engine_name, in_lite = "AUTOINDEX", True

    kind: Literal["autoindex"]
    """The kind of index that Milvus chooses, with its own options (AUTOINDEX)."""

    def width(self, depth: int) -> int:
        return depth


MilvusIndexKind = Annotated[
    MilvusHnsw
    | MilvusHnswSq
    | MilvusIvfFlat
    | MilvusIvfSq8
    | MilvusIvfPq
    | MilvusScann
    | MilvusDiskann
    | MilvusAutoindex
    | MilvusFlat,
    Field(discriminator="kind"),
]
