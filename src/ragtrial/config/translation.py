"""A config of rag-experiments (loader, splitter, pipelines, evaluators) as a config of ours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field

from ragtrial.config.load import load_config
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.dataset.labels import NAMES
from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError
from ragtrial.options import PathText, validate


class _Loader(BaseModel):
    paths: Annotated[list[PathText], Field(min_length=1)]


class _Splitter(BaseModel):
    method: str = "recursive"
    chunk_size: int = 800
    chunk_overlap: int = 0


class _Pipeline(BaseModel):
    embedding: str


class _Cutoff(BaseModel):
    k: int | list[int] = 10


class _OtherConfig(BaseModel):
    loader: _Loader
    splitter: _Splitter = _Splitter()
    pipelines: dict[str, _Pipeline] = Field(min_length=1)
    evaluators: dict[str, _Cutoff] = Field(default={})


def translated(file: Path, folder: Path) -> str:
    """The config in ``folder`` for the documents, splitter, models and cutoffs of ``file``; BM25 is added.

    Its labels, passages of text, are expected beside ``file``. Raises ConfigError for a file of another form.
    """
    text = parse_yaml(read_text(file, ConfigError), str(file), file.resolve().parent)
    other = validate(_OtherConfig, text.value, ConfigError, text.fault_at)
    splitter, documents = other.splitter, Path(os.path.commonpath(other.loader.paths))
    documents = documents if documents.is_dir() else documents.parent
    labels = next((file.parent / name for name in NAMES if (file.parent / name).exists()), file.parent / NAMES[0])
    cutoffs = {name: cutoff.k for name, cutoff in other.evaluators.items()}
    deepest = max([10, *(k for one in cutoffs.values() for k in (one if isinstance(one, list) else [one]))])
    kind = "recursive" if "recursive" in splitter.method else str(splitter.method)
    size, overlap, top_k = splitter.chunk_size, splitter.chunk_overlap, {} if deepest == 10 else {"top_k": deepest}
    retrievers: dict[str, Any] = {"bm25": {"kind": "bm25", **top_k}}
    for name, pipeline in other.pipelines.items():
        retrievers[name] = {"kind": "dense", **top_k, "embedder": _embedder(name, pipeline.embedding)}
    paths = {"corpus": os.path.relpath(documents, folder), "queries": os.path.relpath(labels, folder)}
    config = {
        "experiment": re.sub(r"[^A-Za-z0-9_-]+", "-", file.resolve().parent.name).lstrip("-_")[:100] or "first",
        "dataset": {**paths, "match": "content"},
        "chunker": {"kind": kind, "size": size, "overlap": overlap, "unit": "characters"},
        "retrievers": retrievers,
        "evaluators": {name: {"k": k} for name, k in cutoffs.items()},
    }
    load_config({**config, "dataset": {"corpus": documents, "queries": labels}})
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=110)


def _embedder(pipeline: str, model: str) -> dict[str, str]:
    is_remote = pipeline == "openai" or model.startswith("text-embedding")
    return {"kind": "openai" if is_remote else "sentence-transformer", "model": str(model)}
