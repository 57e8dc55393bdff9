"""Public data sets: the numbers of the literature's own tools, and documents that are odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import pytrec_eval

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.dataset.datasets import DatasetOptions, beir_labels, corpus_of
from ragtrial.dataset.library import Library
from ragtrial.experiment import run_experiment

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MEASURES = {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10", "ap@10": "map_cut_10", "rr@10": "recip_rank"}


def texts_of(file: Path) -> dict[str, str]:
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {row["_id"]: row["text"] for row in rows}


def write_part(source: Path, folder: Path) -> None:
    """Every fourth document of a BEIR folder, and the queries that these answer."""
    header, *labels = (source / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    documents = (source / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[::4]
    ids = {json.loads(line)["_id"] for line in documents}
    judged = [line for line in labels if line.split("\t")[1] in ids]
    (folder / "qrels").mkdir(parents=True)
    (folder / "qrels" / "test.tsv").write_text("\n".join([header, *judged]), encoding="utf-8")
    (folder / "corpus.jsonl").write_text("\n".join(documents), encoding="utf-8")
    (folder / "queries.jsonl").write_bytes((source / "queries.jsonl").read_bytes())


def test_xquad_scores_are_those_of_sentence_transformers_numpy_and_trec_eval(
    shared_data: Path, minilm: SentenceTransformer, minilm_folder: Path, tmp_path: Path
) -> None:
    """A part of XQuAD in English scored without this project: the library embeds, NumPy ranks, trec_eval scores.

    Embedding all of it twice takes long: the library embeds every twelfth text, whose vectors are those in the cache.
    """
    folder = tmp_path / "part"
    write_part(shared_data / "xquad_en", folder)
    config = {
        "experiment": "xquad", "dataset": {"beir": str(folder)}, "chunker": {"kind": "document"},
        "embedder": {"kind": "sentence-transformer", "model": str(minilm_folder), "device": "cpu"},
        "store": {"kind": "exact"}, "retrievers": {"dense": {"kind": "dense", "top_k": 10}}, "latency": False,
        "output": {"directory": str(tmp_path / "results")}, "workspace": str(tmp_path / "workspace"),
    }  # fmt: skip
    (setting,) = run_experiment(config).settings

    documents, queries = texts_of(folder / "corpus.jsonl"), texts_of(folder / "queries.jsonl")
    lines = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in (line.split("\t") for line in lines):
        qrels.setdefault(query, {})[document] = int(grade)
    ids, asked = list(documents), [queries[query] for query in qrels]
    texts = [*documents.values(), *asked]
    embedder = SentenceTransformerEmbedder(model=str(minilm_folder), device="cpu")
    vectors = CachedEmbedder(embedder, tmp_path / "workspace" / "vectors").embed_documents(texts)
    np.testing.assert_allclose(vectors[::12], minilm.encode(texts[::12], normalize_embeddings=True), atol=1e-5)
    run = {}
    for query, cosines in zip(qrels, vectors[len(ids) :] @ vectors[: len(ids)].T, strict=True):
        best = np.argsort(-cosines)[:10]
        run[query] = {ids[place]: float(cosines[place]) for place in best}
    scores = pytrec_eval.RelevanceEvaluator(qrels, set(MEASURES.values())).evaluate(run)
    reference = {
        metric: float(np.mean([values[measure] for values in scores.values()])) for metric, measure in MEASURES.items()
    }

    assert {metric: setting.scores[metric].n for metric in MEASURES} == dict.fromkeys(MEASURES, len(qrels))
    assert {metric: setting.scores[metric].mean for metric in MEASURES} == pytest.approx(reference, abs=1e-4)
    assert 0.9 < reference["ndcg@10"] < 0.99


def test_empty_documents_of_cranfield_are_kept_and_have_no_chunk_of_text(shared_data: Path, tmp_path: Path) -> None:
    from ragtrial.components.chunkers.base import CHUNKERS, cut
    from ragtrial.dataset.chunks import Chunks

    folder = shared_data / "cranfield"
    Library.write(corpus_of(DatasetOptions(beir=str(folder))), tmp_path)
    library = Library(tmp_path)
    assert (len(library), library.empty) == (1400, 2)
    empty = [library.positions[name] for name in ("471", "995")]
    assert [library[place].text for place in empty] == ["", ""]
    for kind in ("document", "recursive"):
        options = {} if kind == "document" else {"unit": "characters", "size": 500}
        (tmp_path / kind).mkdir()
        chunker = CHUNKERS[kind](kind=kind, **options)
        counted = list[int]()
        cut(library, chunker, None, counted.append, lambda _: np.empty((0, 0), np.float32)).write(tmp_path / kind)
        assert sum(counted) == len(library)
        chunks = Chunks(library, tmp_path / kind)
        titled = {place for place in range(len(library)) if library[place].text or library[place].title}
        assert set(chunks.document.tolist()) == titled
        for position in np.flatnonzero(np.isin(chunks.document, empty)).tolist():
            assert chunks.text(position) == ""
    labelled = {
        judgment.doc for query in beir_labels(folder, "test").labels.queries for judgment in query.relevant_docs
    }
    assert labelled <= set(library.ids)
