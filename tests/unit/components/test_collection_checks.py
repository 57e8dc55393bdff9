"""What is wrong with a collection is reported before the run, with what is likely meant and what to do."""

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import ValidationError

from chroma_databases import Item, chroma_server, free_port, word_counts, write_collection
from corpora import library_of
from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from killed_databases import kill_in_transaction
from ragtrial import run_experiment
from ragtrial.components.retrievers.dense import DenseRetriever
from ragtrial.engines import COLLECTIONS, Item as StoredItem
from ragtrial.engines.chroma import ChromaCollectionOptions
from ragtrial.engines.placement import ItemSpans, compare_vectors, survey
from ragtrial.errors import ConfigError, InputError, RunError
from ragtrial.pipeline.run import Run
from ragtrial.rankings import Floats
from report_hits import hits_of

pytestmark = pytest.mark.slow

ITEMS = [Item(f"{name}:0", text, {"source": name, "from": 0, "lang": "en"}) for name, text in DOCUMENTS.items()]


VECTORS: Mapping[str, Callable[[str], list[float]]] = {
    "shorter": lambda text: word_counts(text)[:8],
    "prefix": lambda text: word_counts(f"passage: {text}"),
    "asked": lambda text: word_counts(f"asked: asked: asked: {text}"),
    "other": lambda text: np.random.default_rng(len(text)).normal(size=32).tolist(),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chroma") / "db"
    write_collection(folder, ITEMS)
    write_collection(folder, ITEMS, "squared", "l2")
    write_collection(folder, [], "empty")
    for name, vector in VECTORS.items():
        write_collection(folder, ITEMS, name, vector=vector)
    (folder.parent / "damaged").mkdir()
    (folder.parent / "damaged" / "chroma.sqlite3").write_bytes(b"no database" * 100)
    return folder


@pytest.fixture(scope="module")
def server(database: Path) -> Iterator[int]:
    with chroma_server(database) as port:
        yield port


def experiment(
    folder: Path,
    collection: Mapping[str, Any],
    *,
    normalize: bool = False,
    queries: Sequence[Mapping[str, Any]] = tuple(QUERIES),
    embedder: Mapping[str, str] = MappingProxyType({}),
    where: Mapping[str, Any] | None = None,
) -> Experiment:
    """One whose only retriever is over the collection."""
    given = {"name": "docs", "document": "source", **collection}
    conditions = {"where": where} if where else {}
    return write_experiment(
        folder,
        queries=queries,
        retrievers={"prod": {"kind": "dense", "collection": given, **conditions}},
        embedder={"kind": "custom", "function": "embedding:embed", "normalize": normalize, **embedder},
    )


def refused(made: Experiment) -> str:
    """What is said before the run at the place of the setting, without the collection's name; nothing is run."""
    with pytest.raises(InputError) as caught:
        Run.prepare(made.config())
    assert made.stages() <= {stage for stage in made.stages() if stage[0] in ("documents", "lengths")}
    place = re.escape(str(made.file)) + r":\d+:\d+: setting 'prod': "
    assert all(re.match(place, str(fault)) for fault in caught.value.faults)
    return re.sub(rf"(?m)^{place}(the collection '\w+' at \S+(: | ))?", "", str(caught.value))


class FilteredOptions(ChromaCollectionOptions):
    """Of an engine that has filters of its own, written as a text."""

    engine: ClassVar[str] = "SQL"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = str


def test_a_filter_is_in_the_engines_words_and_changes_rankings() -> None:
    over = FilteredOptions(path="db", name="docs")
    assert "filter" not in DenseRetriever(collection=over).hashed_options()
    assert DenseRetriever(collection=over, filter="a = 1").hashed_options()["filter"] == "a = 1"
    with pytest.raises(ValidationError, match="filter is a mapping; SQL has it as a text"):
        DenseRetriever(collection=over, filter={"a": 1})
    with pytest.raises(ValidationError, match="filter: Chroma has no filters beside where"):
        DenseRetriever(collection=ChromaCollectionOptions(path="db", name="docs"), filter="a = 1")


@pytest.mark.parametrize(("retriever", "fault"), [
    ({"collection": {"name": "a", "path": "db", "url": "http://h"}},
     "retrievers.prod.collection: it must have either path (a folder) or url (a server)."),
    ({"collection": {"name": "a", "path": "db", "headers": {}}},
     "retrievers.prod.collection: only a server has headers; remove it, or set url instead of path."),
    ({"collection": {"name": "a", "path": "db", "end": "to"}},
     "retrievers.prod.collection: end needs start; give both, or start alone."),
    ({"collection": {"name": "a", "path": "db"}, "store": {"kind": "exact"}, "chunker": {"kind": "document"}},
     "retrievers.prod: collection is searched as it is; remove chunker and store, or collection."),
    ({"where": {"a": 1}, "filter": "a = 1"},
     "retrievers.prod: where and filter need collection; add that, or remove them."),
    ({"collection": {"kind": "chrome", "name": "a", "path": "db"}},
     f"retrievers.prod.collection.kind is 'chrome'; it must be one of: {', '.join(COLLECTIONS.names())}. "
     "Did you mean 'chroma'?"),
])  # fmt: skip
def test_a_config_that_cannot_be_meant_is_placed(tmp_path: Path, retriever: Mapping[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write_experiment(tmp_path, retrievers={"prod": {"kind": "dense", **retriever}}).config()
    assert re.sub(r"^\S+:\d+:\d+: ", "", str(caught.value)) == fault


def test_a_folder_that_is_written_to_is_not_copied(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "db", ITEMS)
    moments = iter(range(1, 1000))
    done = threading.Event()

    def write(event: str, _: object) -> None:
        if event == "shutil.copyfile" and not done.is_set():
            moment = next(moments)
            os.utime(folder / "chroma.sqlite3", ns=(moment, moment))

    sys.addaudithook(write)  # which stays for the process, as any does; it writes at the moment that a copy begins
    try:
        with pytest.raises(InputError, match="is being written to, so it cannot be copied"):
            ChromaCollectionOptions(path=str(folder), name="docs").open()
    finally:
        done.set()


def test_a_folder_whose_writer_was_killed_is_searched_and_left_as_it_is(tmp_path: Path, database: Path) -> None:
    folder = Path(shutil.copytree(database, tmp_path / "db"))
    kill_in_transaction(folder / "chroma.sqlite3")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert folder / "chroma.sqlite3-journal" in before
    made = [experiment(tmp_path / name, {"path": str(path)}) for name, path in (("1", database), ("2", folder))]
    wanted, found = (hits_of(run_experiment(one.config()), "prod") for one in made)
    assert found == wanted
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_each_query_whose_conditions_are_not_understood_is_told(tmp_path: Path, server: int) -> None:
    queries = [
        {**QUERIES[0], "where": {"lang": ["en"]}},
        {**QUERIES[1], "where": {"lang": "fr"}},
        {**QUERIES[2], "where_document": {"$regex": "["}},
    ]
    said = refused(experiment(tmp_path, {"url": f"http://127.0.0.1:{server}"}, queries=queries)).splitlines()
    assert [line.partition(": Regex")[0] for line in said] == [
        "where: {'lang': ['en']} of the query 'How long do I bake rye bread?': where.lang is a list; it must be a "
        "text, a number, true or false.",
        "where_document: {'$regex': '['} of the query 'Which soup is blended until it is smooth?'",
    ]


def test_vectors_that_nearly_agree_and_what_does_not_matter_are_let_through(tmp_path: Path, database: Path) -> None:
    texts, stored = ["a", "b"], np.array([[1, 0.1], [0, 1]], dtype=np.float32)

    def embed(asked: object) -> Floats:
        return np.eye(2, dtype=np.float32)

    assert compare_vectors(texts, stored, "cosine", "", embed, embed).said == "nearly (cosine 0.9950)"
    stored[0, 1] = 0.2
    assert "another model made them (the collection says: openai (small))" in (
        compare_vectors(texts, stored, "cosine", "openai (small)", embed, embed).fault.replace("Another", "another")
    )
    for number, (collection, more) in enumerate([({"name": "other", "check": False}, {}), ({}, {"normalize": True})]):
        made = experiment(tmp_path / str(number), {"path": str(database), **collection}, **more)  # type: ignore[arg-type]
        assert [setting.name for setting in Run.prepare(made.config()).settings] == ["prod"]


OTHER = r"its vectors were not made with this embedder: 5 stored texts, embedded again, reach only a cosine of -?[\d.]+"


@pytest.mark.parametrize(("collection", "more", "fault"), [
    ({"name": "dosc"}, {},
     r"there is no collection 'dosc' at {db}. Did you mean 'docs'\? "
     r"Collections: asked, docs, empty, other, prefix, shorter, squared\."),
    ({"path": "{above}/nowhere"}, {}, r"\S+ is not a folder of Chroma: there is no chroma.sqlite3 in it\."),
    ({"path": "{above}"}, {},
     r"{above} is not a folder of Chroma: there is no chroma.sqlite3 in it. There is one in {above}/d\w+\."),
    ({"path": "{above}/damaged"}, {},
     r"Chroma at \S+ cannot be opened \(tenant 'default_tenant', database 'def.*file is not a database"),
    ({"name": "empty"}, {}, r"is empty; there is nothing to search\."),
    ({"document": None}, {},
     r"items of documents that are not in the corpus: 6 of 6 \(documents: 6, like 'bread/rolls.md'\): their id "
     r"says 'bread/rye.md:0', 'bread/rolls.md:0', 'soup/tomato.md:0', and 3 more. Did you mean 'bread/rye.md'\? "
     r"The metadata 'source' name documents: set `document`\."),
    ({"document": "about"}, {}, r"items of .*: 6 of 6 .* 'about' says ''\. The metadata 'source' name .*"),
    ({}, {"where": {"lang": "en", "source": "x"}},
     r"where: {'lang': 'en', 'source': 'x'} of the config: where has 2 keys, 'lang', 'source'; join them: .*"),
    ({}, {"where": {"lang": "fr"}}, r"no item of 6 meets where: {'lang': 'fr'}\."),
    ({"name": "shorter", "check": False}, {},
     r"its vectors have 8 dimensions, those of the embedder 32: another model made them. Set embedder to .*"),
    ({"name": "other"}, {}, OTHER + r".*Another model made them, or this one from other texts; set embedder.*"),
    ({"name": "prefix"}, {}, OTHER + r".*With 'passage: ' before each text they agree: set document_prefix: .*"),
    ({"name": "asked"}, {"embedder": {"query_prefix": "asked: asked: asked: "}},
     OTHER + r".*Embedded as queries are, the texts agree: set document_prefix.*"),
    ({"name": "squared"}, {"normalize": True},
     r"its vectors have the embedder's direction and another length: [\d.]+, not 1. Its space is l2, in which the "
     r"length counts; set normalize: false for the embedder\."),
])  # fmt: skip
def test_a_collection_that_does_not_fit_is_refused_with_the_likely_cause(
    tmp_path: Path, database: Path, collection: Mapping[str, Any], more: Mapping[str, Any], fault: str
) -> None:
    above = str(database.parent)
    path = str(collection.get("path", database)).replace("{above}", above)
    said = refused(experiment(tmp_path, {**collection, "path": path}, **more))
    assert re.fullmatch(fault.replace("{above}", above).replace("{db}", str(database)), said), said
    assert not (database.parent / "nowhere").exists()


@pytest.mark.parametrize(("start", "end", "fault"), [
    (0, 100_000, "'x' is characters 0 to 100,000 of 'a.txt', which has 17."),
    ("a", 9, "'x' has 'from' 'a', which is not a whole number."),
    (2, 9, "'x' has the text 'Clean the', not 'ean the'."),
])  # fmt: skip
def test_characters_that_are_not_the_item_s_are_told(tmp_path: Path, start: object, end: object, fault: str) -> None:
    library = library_of(tmp_path, {"a.txt": "Clean the kitchen"})
    options = ChromaCollectionOptions(path="db", name="docs", document="source", start="from", end="to")
    item = StoredItem("x", {"source": "/srv/a.txt", "from": start, "to": end}, "Clean the")
    count, (said,) = survey([[item]], library, options)
    assert count == 1
    assert said.startswith(f"items that are not where they say: 1 of 1: {fault}")
    if "has the text" not in fault:
        with pytest.raises(RunError, match=f"^the item {re.escape(fault)}$"):
            ItemSpans(library, options).spans([item])


@pytest.mark.parametrize(("status", "text", "fault"), [
    (200, b"<html>hello</html>", "the server at {url} is not a Chroma server of version 1. Start it with "),
    (401, b"", "the server at {url} refuses (401 Unauthorized); set headers to its token."),
    (None, b"", "no Chroma server answers at {url} ([Errno 111] Connection refused). Start it with `chroma run "),
])  # fmt: skip
def test_another_server_than_chromas_is_told(tmp_path: Path, status: int | None, text: bytes, fault: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 500)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = free_port() if status is None else web.server_port
        said = refused(experiment(tmp_path, {"url": f"http://127.0.0.1:{port}"}))
        web.shutdown()
    assert said.startswith(fault.format(url=f"http://127.0.0.1:{port}"))


def test_a_database_or_a_tenant_that_is_not_there_is_told(tmp_path: Path, server: int) -> None:
    said = refused(experiment(tmp_path, {"url": f"http://127.0.0.1:{server}", "database": "nope"}))
    assert said.endswith(f"http://127.0.0.1:{server} has no database 'nope' of a tenant 'default_tenant'.")
