"""FAISS in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss

from faults.base import QUERIES, ROWS, Seen, fault, recall, said_by_a_run


def built(factory: str) -> Any:
    index = faiss.index_factory(ROWS.shape[1], factory)
    index.train(ROWS)
    index.add(ROWS)
    return index


@fault("faiss", "fewer-hits: one:")
def short_lists(folder: Path) -> Seen:
    """Few probes give fewer hits than asked for, as -1 in the result."""
    _, codes = built("IVF128,Flat").search(QUERIES, 100)
    short = int((codes[:, -1] < 0).sum())
    said = said_by_a_run(folder, {"store": {"kind": "faiss", "space": "l2", "factory": "IVF128,Flat"}, "top_k": 100})
    return Seen(short > 0, f"{short} of {len(QUERIES)} queries got fewer than 100 hits", said)


@fault("faiss", "index-loss: one: the index moves")
def one_probe(folder: Path) -> Seen:
    """An inverted file searches one list unless nprobe is set."""
    index = built("IVF128,Flat")
    share = recall(index.search(QUERIES, 10)[1].tolist(), QUERIES, ROWS)
    said = said_by_a_run(folder, {"store": {"kind": "faiss", "space": "l2", "factory": "IVF128,Flat"}})
    return Seen(share < 0.9, f"recall {share:.3f} at the default nprobe of {index.nprobe}", said)
