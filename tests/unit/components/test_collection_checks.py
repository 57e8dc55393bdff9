"""What is wrong with a collection is reported before the run, with what is likely meant and what to do."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
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
from ragtrial.engines import COLLECTIONS, opened
from ragtrial.engines.chroma import ChromaCollectionOptions
from ragtrial.engines.placement import ItemReader, compare
from ragtrial.errors import ConfigError, InputError
from ragtrial.pipeline.run import Run
from ragtrial.rankings import Floats
from report_hits import hits_of

pytestmark = pytest.mark.slow

ITEMS = [Item(f"{name}:0", text, {"source": name, "from": 0, "lang": "en"}) for name, text in DOCUMENTS.items()]


def shortened(text: str) -> list[float]:
    return word_counts(text)[:8]


def prefixed(text: str) -> list[float]:
    return word_counts(f"passage: {text}")


def as_queries(text: str) -> list[float]:
    return word_counts(f"asked: asked: asked: {text}")


def unrelated(text: str) -> list[float]:
    return np.random.default_rng(len(text)).normal(size=32).tolist()  # type: ignore[no-any-return]  # floats


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chroma") / "db"
    write_collection(folder, ITEMS)
    write_collection(folder, ITEMS, "squared", "l2")
    write_collection(folder, [], "empty")
    for name, vector in (("shorter", shortened), ("prefix", prefixed), ("asked", as_queries), ("other", unrelated)):
        write_collection(folder, ITEMS, name, vector=vector)
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
    assert "filter" not in DenseRetriever(collection=over).identity()
    assert DenseRetriever(collection=over, filter="a = 1").identity()["filter"] == "a = 1"
    with pytest.raises(ValidationError, match="filter is a mapping; SQL has it as a text"):
        DenseRetriever(collection=over, filter={"a": 1})
    with pytest.raises(ValidationError, match="filter: Chroma has no filters beside where"):
        DenseRetriever(collection=ChromaCollectionOptions(path="db", name="docs"), filter="a = 1")


# Where it is


@pytest.mark.parametrize(
    ("retriever", "fault"),
    [
        ({"collection": {"path": "db"}}, "retrievers.prod.collection.name is missing; it is required."),
        ({"collection": {"name": "a"}},
         "retrievers.prod.collection: it must have either path (a folder) or host (a server)."),
        ({"collection": {"name": "a", "path": "db", "host": "h"}},
         "retrievers.prod.collection: it must have either path (a folder) or host (a server)."),
        ({"collection": {"name": "a", "path": "db", "port": 8000}},
         "retrievers.prod.collection: only a server has port; remove it, or set host instead of path."),
        ({"collection": {"name": "a", "host": "http://h"}},
         "retrievers.prod.collection: host is 'http://h'; it must be a name or an address alone, like localhost "
         "(see ssl)."),
        ({"collection": {"name": "a", "path": "db", "end": "to"}},
         "retrievers.prod.collection: end needs start; give both, or start alone."),
        ({"collection": {"name": "a", "host": "h", "port": 0}},
         "retrievers.prod.collection.port is 0; it must be at least 1 (default 8000)."),
        ({"collection": {"name": "a", "path": "db"}, "store": {"kind": "exact"}, "chunker": {"kind": "document"}},
         "retrievers.prod: collection is searched as it is; remove chunker and store, or collection."),
        ({"where": {"a": 1}}, "retrievers.prod: where needs collection; add that, or remove it."),
        ({"where": {"a": 1}, "filter": "a = 1"},
         "retrievers.prod: where and filter need collection; add that, or remove them."),
        ({"collection": {"name": "a", "path": "db"}, "filter": "a = 1"},
         "retrievers.prod: filter: Chroma has no filters beside where; remove it."),
        ({"collection": {"kind": "chrome", "name": "a", "path": "db"}},
         f"retrievers.prod.collection.kind is 'chrome'; it must be one of: {', '.join(COLLECTIONS.names())}. "
         "Did you mean 'chroma'?"),
        ({"collection": {"name": "a", "path": "db"}, "where": {}},
         "retrievers.prod.where has 0 entries; it must have at least 1."),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_meant_is_refused_with_its_place(
    tmp_path: Path, retriever: Mapping[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        write_experiment(tmp_path, retrievers={"prod": {"kind": "dense", **retriever}}).config()
    assert re.sub(r"^\S+:\d+:\d+: ", "", str(caught.value)) == fault


def test_a_collection_that_is_not_there_is_told_with_those_that_are_and_not_made(
    tmp_path: Path, database: Path, server: int
) -> None:
    there = "Collections: asked, docs, empty, other, prefix, shorter, squared."
    of_folder = refused(experiment(tmp_path / "1", {"path": str(database), "name": "dosc"}))
    assert of_folder == f"there is no collection 'dosc' at {database}. Did you mean 'docs'? {there}"
    of_server = refused(experiment(tmp_path / "2", {"host": "127.0.0.1", "port": server, "name": "dosc"}))
    assert of_server == f"there is no collection 'dosc' at http://127.0.0.1:{server}. Did you mean 'docs'? {there}"


def test_a_folder_that_is_none_of_chromas_is_told_and_not_made(tmp_path: Path, database: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert refused(experiment(tmp_path / "1", {"path": str(nowhere)})) == (
        f"{nowhere} is not a folder of Chroma: there is no chroma.sqlite3 in it."
    )
    assert not nowhere.exists()
    above = database.parent
    assert refused(experiment(tmp_path / "2", {"path": str(above)})) == (
        f"{above} is not a folder of Chroma: there is no chroma.sqlite3 in it. There is one in {database}."
    )


def test_a_database_that_is_damaged_is_told(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "chroma.sqlite3").write_bytes(b"no database" * 100)
    said = refused(experiment(tmp_path / "1", {"path": str(tmp_path / "db")}))
    assert said.startswith(f"Chroma at {tmp_path / 'db'} cannot be opened (tenant 'default_tenant', database ")
    assert said.endswith("file is not a database")


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
        with (
            pytest.raises(InputError, match="is being written to, so it cannot be copied"),
        ):
            ChromaCollectionOptions(path=str(folder), name="docs").open()
    finally:
        done.set()


def test_a_folder_whose_program_was_killed_while_it_wrote_is_searched_and_left_as_it_is(
    tmp_path: Path, database: Path
) -> None:
    folder = Path(shutil.copytree(database, tmp_path / "db"))
    kill_in_transaction(folder / "chroma.sqlite3")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert folder / "chroma.sqlite3-journal" in before
    made = [experiment(tmp_path / name, {"path": str(path)}) for name, path in (("1", database), ("2", folder))]
    wanted, found = (hits_of(run_experiment(one.config()), "prod") for one in made)
    assert found == wanted
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_server_that_does_not_answer_is_told_with_what_was_tried(tmp_path: Path) -> None:
    port = free_port()
    said = refused(experiment(tmp_path, {"host": "127.0.0.1", "port": port}))
    assert said == (
        f"no Chroma server answers at http://127.0.0.1:{port} ([Errno 111] Connection refused). Start it with `chroma "
        f"run --path FOLDER --port {port}`, or correct host, port and ssl."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "text", "fault"),
    [
        (200, b"<html>hello</html>", "the server at {url} is not a Chroma server of version 1. {start}"),
        (404, b"",
         "the server at {url} is not a Chroma server of version 1. {start}"),
        (401, b"", "the server at {url} refuses (401 Unauthorized); set headers to its token."),
    ],
)  # fmt: skip
def test_another_server_than_chromas_is_told(tmp_path: Path, status: int, text: bytes, fault: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = web.server_port
        said = refused(experiment(tmp_path, {"host": "127.0.0.1", "port": port}))
        web.shutdown()
    start = f"Start it with `chroma run --path FOLDER --port {port}`, or correct host, port and ssl."
    assert said == fault.format(url=f"http://127.0.0.1:{port}", start=start)


def test_a_database_or_a_tenant_that_is_not_there_is_told(tmp_path: Path, server: int) -> None:
    said = refused(experiment(tmp_path, {"host": "127.0.0.1", "port": server, "database": "nope"}))
    assert said == (
        f"the Chroma server at http://127.0.0.1:{server} has no database 'nope' of a tenant 'default_tenant'."
    )


# What it holds


def test_an_empty_collection_is_refused(tmp_path: Path, database: Path) -> None:
    said = refused(experiment(tmp_path, {"path": str(database), "name": "empty"}))
    assert said == "is empty; there is nothing to search."


def test_items_of_unknown_documents_are_counted_and_the_key_that_names_them_is_suggested(
    tmp_path: Path, database: Path
) -> None:
    said = refused(experiment(tmp_path, {"path": str(database), "document": None}))
    assert said == (
        "6 of 6 items are of documents that are not in the corpus (6 documents, like 'bread/rolls.md'): their id says "
        "'bread/rye.md:0', 'bread/rolls.md:0', 'soup/tomato.md:0', and 3 more. Did you mean 'bread/rye.md'? The "
        "metadata 'source' name documents: set `document`."
    )


def test_items_that_do_not_say_their_document_are_counted(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "db", [*ITEMS[:2], Item("x", "word", {"about": "none"})])
    said = refused(experiment(tmp_path / "e", {"path": str(folder)}))
    assert said.startswith("1 of 3 items are of documents that are not in the corpus (6 documents, like ")
    assert said.endswith("): their metadata 'source' says ''.")
    kept = experiment(tmp_path / "kept", {"path": str(folder)}, where={"lang": "en"})
    Run.prepare(kept.config())  # of items that are left out nothing is asked


@pytest.mark.parametrize(
    ("start", "end", "fault"),
    [
        (0, 100_000,
         "1 of 7 items are not where they say: 'x' is characters 0 to 100,000 of 'oven.txt', "
         "which has 81."),
        (9, 9,
         "1 of 7 items are not where they say: 'x' is characters 9 to 9 of 'oven.txt', which has "
         "81."),
        ("a", 9, "1 of 7 items are not where they say: 'x' has 'from' 'a', which is not a whole number."),
        (2, 9,
         "1 of 7 items are not where they say: 'x' has the text 'Clean the', not 'ean the'."),
    ],
)  # fmt: skip
def test_characters_that_are_not_those_of_the_item_are_told(
    tmp_path: Path, start: object, end: object, fault: str
) -> None:
    item = Item("x", "Clean the", {"source": "oven.txt", "from": start, "to": end})
    folder = write_collection(tmp_path / "db", [*ITEMS, item])
    said = refused(experiment(tmp_path / "e", {"path": str(folder), "start": "from", "end": "to"}))
    assert said.startswith(fault)


# What it understands


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        ({"lang": "en", "source": "x"},
         "where: {'lang': 'en', 'source': 'x'} of the config: where has 2 keys, 'lang', 'source'; join them: "
         "{$and: [...]}."),
        ({"lang": {"$like": "e"}},
         "where: {'lang': {'$like': 'e'}} of the config: where.lang.$like is an unknown operator. Did you mean '$lte'? "
         "Known: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $not_contains."),
        ({"$and": [{"lang": "en"}, {"lnag": "en"}]},
         "where: {'$and': [{'lang': 'en'}, {'lnag': 'en'}]} of the config: where.lnag: no item has the metadata "
         "'lnag'. Did you mean 'lang'?"),
        ({"from": "0"},
         "where: {'from': '0'} of the config: where.from is compared with a text; in all items it is a number."),
        ({"lang": "fr"}, "no item of 6 meets where: {'lang': 'fr'}."),
    ],
)  # fmt: skip
def test_conditions_that_cannot_be_are_told(
    tmp_path: Path, database: Path, where: Mapping[str, Any], fault: str
) -> None:
    assert refused(experiment(tmp_path, {"path": str(database)}, where=where)) == fault


def test_each_query_whose_conditions_are_not_understood_is_told(tmp_path: Path, server: int) -> None:
    queries = [
        {**QUERIES[0], "where": {"lang": ["en"]}},
        {**QUERIES[1], "where": {"lang": "fr"}},
        {**QUERIES[2], "where_document": {"$regex": "["}},
    ]
    said = refused(experiment(tmp_path, {"host": "127.0.0.1", "port": server}, queries=queries)).splitlines()
    assert [line.partition(": Regex")[0] for line in said] == [
        "where: {'lang': ['en']} of the query 'How long do I bake rye bread?': where.lang is a list; it must be a "
        "text, a number, true or false.",
        "where_document: {'$regex': '['} of the query 'Which soup is blended until it is smooth?'",
    ]


# Whose vectors it has


def test_vectors_of_another_dimension_are_told(tmp_path: Path, database: Path) -> None:
    said = refused(experiment(tmp_path, {"path": str(database), "name": "shorter", "check": False}))
    assert said == (
        "its vectors have 8 dimensions, those of the embedder 32: another model made them. Set embedder to that model."
    )


@pytest.mark.parametrize(
    ("name", "embedder", "cause"),
    [
        ("other", {}, r"Another model made them, or this one from other texts; set embedder"),
        ("prefix", {}, r"With 'passage: ' before each text they agree: set document_prefix: 'passage: '; "),
        ("asked", {"query_prefix": "asked: asked: asked: "}, r"Embedded as queries are, the texts agree: set doc"),
    ],
)
def test_vectors_that_the_embedder_did_not_make_are_told_with_the_likely_cause(
    tmp_path: Path, database: Path, name: str, embedder: Mapping[str, str], cause: str
) -> None:
    said = refused(experiment(tmp_path / "1", {"path": str(database), "name": name}, embedder=embedder))
    pattern = r"its vectors were not made with this embedder: 5 stored texts, embedded again, reach only a "
    assert re.match(pattern + r"cosine of -?[\d.]+ to [\d.]+ with them. " + cause, said)
    unchecked = experiment(tmp_path / "2", {"path": str(database), "name": name, "check": False}, embedder=embedder)
    Run.prepare(unchecked.config())


def test_vectors_of_another_length_are_refused_only_where_the_length_counts(tmp_path: Path, database: Path) -> None:
    said = refused(experiment(tmp_path / "1", {"path": str(database), "name": "squared"}, normalize=True))
    assert re.fullmatch(
        r"its vectors have the embedder's direction and another length: [\d.]+, not 1. Its space is l2, "
        r"in which the length counts; set normalize: false for the embedder.",
        said,
    )
    Run.prepare(experiment(tmp_path / "2", {"path": str(database)}, normalize=True).config())


def test_vectors_that_nearly_agree_are_let_through_and_told() -> None:
    texts, stored = ["a", "b"], np.array([[1, 0.1], [0, 1]], dtype=np.float32)

    def embed(asked: object) -> Floats:
        return np.eye(2, dtype=np.float32)

    assert compare(texts, stored, "cosine", "", embed, embed).said == "nearly (cosine 0.9950)"
    stored[0, 1] = 0.2
    assert "another model made them (the collection says: openai (small))" in (
        compare(texts, stored, "cosine", "openai (small)", embed, embed).fault.replace("Another", "another")
    )


def test_a_collection_says_what_it_was_made_with(tmp_path: Path) -> None:
    import chromadb
    from chromadb.config import Settings
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

    with chromadb.PersistentClient(  # type: ignore[attr-defined]  # it closes itself, which its type does not say
        path=str(tmp_path / "db"), settings=Settings.model_construct(anonymized_telemetry=False)
    ) as client:
        client.create_collection("known", embedding_function=DefaultEmbeddingFunction())
    held = opened(ChromaCollectionOptions(path=str(tmp_path / "db"), name="known"))
    assert (held.made_with, held.space, held.count, held.dimension) == ("default", "l2", 0, 0)


# What the documents are called


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("a/x.md", "a/x.md"),
        ("/srv/docs/a/x.md", "a/x.md"),
        ("C:\\docs\\a\\x.md", "a/x.md"),
        ("./x.md", "x.md"),
        ("b/x.md", "x.md"),
        ("ax.md", None),
        ("a/x.md/", None),
        ("", None),
        ("cafe\u0301.md", "caf\u00e9.md"),
    ],
)
def test_a_document_is_named_by_its_id_or_by_a_path_that_ends_in_it(
    tmp_path: Path, name: str, document: str | None
) -> None:
    library = library_of(tmp_path, {"x.md": "one", "a/x.md": "two", "caf\u00e9.md": "three"})
    position = ItemReader(library, ChromaCollectionOptions(path="db", name="docs")).position(name)
    assert (None if position is None else library.ids[position]) == document


def test_only_the_embedder_reaches_a_retriever_over_a_collection() -> None:
    over = DenseRetriever(collection=ChromaCollectionOptions(path="db", name="docs"))
    assert over.reached_by == {"embedder"}
    assert DenseRetriever().reached_by == {"chunker", "context", "embedder", "store"}
