"""pgvector: what PostgreSQL does in silence is said, and no password is written anywhere."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from ragtrial.engines.base import FlatIndex, OtherIndex
from ragtrial.engines.pgvector import HnswIndex, PgvectorStore
from ragtrial.engines.servers import read_remote
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import LocatedText
from store_kinds import found_by, nothing, opened, postgres_url, recall
from vector_oracles import exactly, like_embeddings, vectors_of


@pytest.fixture(scope="module")
def url() -> str:
    return postgres_url()


def test_a_scan_of_a_small_table_is_named_and_so_is_the_index_where_it_is_used(url: str, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(200, 8, seed=1))
    with opened(PgvectorStore(url=url), vectors, tmp_path) as index:
        scanned = index.use()
    with opened(PgvectorStore(url=url, enable_seqscan=False), vectors, tmp_path) as index:
        searched = index.use()
    assert (scanned.is_used, searched.is_used) == (False, True)
    assert scanned.evidence.startswith("EXPLAIN shows a scan of the whole table, not the index ragtrial_")


def test_a_search_returns_no_more_hits_than_ef_search(url: str, tmp_path: Path) -> None:
    vectors, queries = vectors_of(like_embeddings(2_000, 16, seed=2)), like_embeddings(5, 16, seed=3)
    store = PgvectorStore(url=url, index=HnswIndex(ef_search=40), enable_seqscan=False)
    assert found_by(store, vectors, queries, 100, tmp_path).lengths.max() <= 40


def test_as_many_probes_as_lists_are_exact_and_one_is_not(url: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    vectors = vectors_of(random.standard_normal((2_000, 16)))
    queries = random.standard_normal((20, 16)).astype(np.float32)
    true = exactly(vectors, queries, 10, "cosine").codes
    shares = []
    for probes in (1, 20):
        lists = OtherIndex(type="ivfflat", build={"lists": 20}, search={"ivfflat.probes": probes})
        store = PgvectorStore(url=url, index=lists, enable_seqscan=False)
        shares.append(recall(found_by(store, vectors, queries, 10, tmp_path).codes, true))
    assert shares[0] < 0.8
    assert shares[1] == 1


def test_rows_that_are_lost_while_an_index_is_built_are_an_error(url: str, tmp_path: Path) -> None:
    import psycopg

    def lose(_count: int) -> None:
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(f'DELETE FROM "{read_remote(tmp_path)["collection"]}" WHERE id = 3'.encode())

    with pytest.raises(StoreError, match=r"pgvector at .* kept 19 of 20 vectors in ragtrial_"):
        PgvectorStore(url=url).build(vectors_of(like_embeddings(20, 8, seed=5)), tmp_path, lose)


def test_a_vector_that_the_server_refuses_ends_a_build_by_several_connections(url: str, tmp_path: Path) -> None:
    matrix = like_embeddings(12_000, 4, seed=6)
    matrix[7_000, 2] = np.nan
    with pytest.raises(StoreError, match=r"pgvector at .*NaN not allowed in vector"):
        PgvectorStore(url=url).build(vectors_of(matrix), tmp_path, nothing)


def test_a_limit_of_connections_is_named_with_the_option_that_respects_it(url: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 1")
        database.execute("GRANT ALL ON SCHEMA public TO few")
    limited, vectors = url.replace("//postgres", "//few"), vectors_of(like_embeddings(12_000, 4, seed=7))
    named = r'too many connections for role "few"\. .*, lower store\.concurrency\.$'
    two_at_once = closing(PgvectorStore(url=limited, index=FlatIndex()).engine())
    with two_at_once as engine, engine.idle(), pytest.raises(StoreServerError, match=named), engine.idle():
        pass
    with psycopg.connect(url, autocommit=True) as database:  # a server ends closed connections a moment later
        while database.execute("SELECT 1 FROM pg_stat_activity WHERE usename = 'few'").fetchone():
            pass
    PgvectorStore(url=limited, index=FlatIndex(), concurrency=1).build(vectors, tmp_path, nothing)


def test_what_the_server_is_too_old_for_is_refused_before_anything_is_built(url: str) -> None:
    newer = OtherIndex(type="hnsw", search={"hnsw.iterative_scan": "strict_order"})
    with pytest.raises(InputError, match=r"pgvector at .*hnsw\.iterative_scan"):
        PgvectorStore(url=url, index=newer).check()
    with pytest.raises(InputError, match=r"pgvector at .*halfvec"):
        PgvectorStore(url=url, column="halfvec").check()


@pytest.mark.parametrize(("options", "said"), [
    ({}, "url\n"),
    ({"url": "http://localhost"}, "it must be like postgresql://"),
    ({"url": "postgresql://me:secret@localhost/db"}, "a password must not be in a url"),
    *(({"url": "postgresql://me@localhost/db", "password": LocatedText("x", Path(), written=written)},
       "a secret must not be in the") for written in ("x", "${NOT_SET:-x}", "x${NOT_SET:-}")),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PgvectorStore.model_validate(options)
