"""Chroma in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from faults.base import QUERIES, ROWS, Seen, fault, said_by_a_run

if TYPE_CHECKING:
    from chromadb.api.client import Client

FEW = ROWS[:900]


def opened(folder: Path) -> Client:
    import chromadb
    from chromadb.config import Settings

    return cast(
        "Client", chromadb.PersistentClient(str(folder), settings=Settings.model_construct(anonymized_telemetry=False))
    )


@fault("chroma", "graph-not-kept: one:")
def rebuilt_graph(folder: Path) -> Seen:
    """Below 1,000 items no graph is kept: each opening builds another one."""
    path, answers = folder / "chroma", []
    with opened(path) as client:
        starved: Any = {"space": "l2", "max_neighbors": 2, "ef_construction": 4, "ef_search": 10}
        names = [str(code) for code in range(len(FEW))]
        client.create_collection("docs", configuration={"hnsw": starved}, embedding_function=None).add(
            ids=names, documents=names, embeddings=FEW
        )
    for _ in range(3):
        with opened(path) as client:
            collection = client.get_collection("docs", embedding_function=None)
            answers.append(collection.query(query_embeddings=QUERIES, n_results=10, include=[])["ids"])
    said = said_by_a_run(folder, {"collection": {"path": str(path), "name": "docs"}}, FEW)
    differ = sum(one != other for one, other in zip(answers[0], answers[1], strict=True))
    return Seen(differ > 0, f"{differ} of {len(QUERIES)} queries got other hits when the folder was opened again", said)
