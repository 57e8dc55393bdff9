"""An installed package adds a member to each family by its entry points alone."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from corpora import write_files
from experiments import python
from small_experiment import small_experiment

STORE = '''
from typing import ClassVar, Literal

from ragtrial.engines.base import STORES, IndexUse, Store
from ragtrial.engines.exact import ExactIndex


class _Lossy(ExactIndex):
    def use(self):
        return IndexUse(is_used=False, evidence="The shelf is bare.")


@STORES.register("shelf")
class Shelf(Store):
    """Vectors on a shelf."""

    advice_for_unused: ClassVar[str] = "Dust the shelf."

    kind: Literal["shelf"] = "shelf"

    boards: int = 3
    """How many boards it has."""

    def build(self, vectors, folder, advance):
        (folder / "boards").write_text(str(self.boards))
        advance(len(vectors))

    def open(self, vectors, folder):
        return _Lossy(vectors, self.space)
'''

CHUNKER = '''
from typing import Literal

from ragtrial.components.chunkers.base import CHUNKERS, Chunker, trimmed


@CHUNKERS.register("halves")
class Halves(Chunker):
    """Each document in two halves."""

    kind: Literal["halves"] = "halves"

    def split(self, text, ruler):
        middle = len(text) // 2
        return [span for span in (trimmed(text, 0, middle), trimmed(text, middle, len(text))) if span]
'''

RETRIEVER = '''
from typing import Literal

from ragtrial.components.interfaces import RETRIEVERS, Candidates, ChunkRetriever
from ragtrial.rankings import from_rows
from ragtrial.records import ReportWarning


@RETRIEVERS.register("first")
class First(ChunkRetriever):
    """The first chunks, whatever was asked."""

    kind: Literal["first"] = "first"

    def open(self, materials):
        return _Open(materials)

    def warnings(self, setting, facts):
        yield ReportWarning("heedless", f"{setting}: nobody looked at the questions.")


class _Open:
    def __init__(self, materials):
        self.materials = materials

    def search(self, questions, depth):
        chunks = self.materials.chunks()
        rows = [list(range(min(depth, len(chunks)))) for _ in questions]
        return Candidates.of(chunks, from_rows(rows, [[1 / (code + 1) for code in row] for row in rows]))
'''

REFINER = '''
from typing import ClassVar, Literal

from ragtrial.components.refiners.base import REFINERS, SingleInputRefiner


@REFINERS.register("same")
class Same(SingleInputRefiner):
    """The same ranking again."""

    explanation: ClassVar[str] = "repeats the first {candidates} hits of {parts}, {times} times"

    kind: Literal["same"] = "same"

    times: int = 1
    """How often."""

    def open(self, materials):
        return self

    def refine(self, questions, parts):
        return parts[0]
'''

EXECUTOR = '''
from pathlib import Path
from typing import Literal

from ragtrial.components.embedders.base import shard_vectors
from ragtrial.components.executors.base import EXECUTORS, Executor


@EXECUTORS.register("desk")
class Desk(Executor):
    """One worker at a desk."""

    kind: Literal["desk"] = "desk"

    def start(self, embedder):
        return _Worker(embedder)


class _Worker:
    count = 1

    def __init__(self, embedder):
        self.embedder = embedder

    def embed(self, shard):
        Path("desk.txt").write_text("was asked")
        return list(shard_vectors(self.embedder, self.embedder.load(), shard))

    def release(self):
        pass
'''

EMBEDDER = '''
from typing import Literal

from ragtrial.components.embedders.base import EMBEDDERS, DeclaredEmbedder


@EMBEDDERS.register("letters")
class Letters(DeclaredEmbedder):
    """How often each letter is there."""

    kind: Literal["letters"] = "letters"

    def hashed_parts(self, digest=None):
        return {}

    def load(self):
        return lambda texts: [[text.count(letter) + 0.5 for letter in "aeinrst"] for text in texts]
'''

COLLECTION = '''
from typing import ClassVar, Literal

from ragtrial.engines.collection import COLLECTIONS, CollectionOptions


@COLLECTIONS.register("drawer")
class Drawer(CollectionOptions):
    """Vectors in a drawer."""

    engine: ClassVar[str] = "drawer"

    kind: Literal["drawer"] = "drawer"

    @property
    def title(self):
        return "drawer"

    def connect(self, stack):
        raise NotImplementedError
'''

READERS = """
from ragtrial.config.sweep import METHODS, SearchMethod
from ragtrial.labelling.importers.base import ImportedAnswer, ImportedQuestion, importer
from ragtrial.scoring.tables.base import Score, score_form
from ragtrial.views.sections.base import View, registered


@importer("cards", "rows with `front` and `back`", lambda content: {"front", "back"} <= content.keys)
def read_cards(content):
    return [ImportedQuestion((row,), "", card["front"], (ImportedAnswer((row,), card["back"]),))
            for row, card in enumerate(content.rows)]


@score_form("stars", "rows with `stars`", lambda content: "stars" in content.keys)
def read_stars(source):
    for row, card in enumerate(source.content.rows):
        yield Score((row,), card["who"], "stars", card["stars"], id=card["id"])


class Weather(View):
    name, order, help = "weather", 99, "The weather."

    def compute(self, given):
        return "It rains."

    def blocks(self, part, width, *, everything):
        yield part or ""


registered(Weather())


def search_backwards(run):
    run.try_all(run.space.all_points()[-run.left :])


METHODS.register("backwards")(SearchMethod(search_backwards, is_adaptive=False))
"""

METRIC = """
import numpy as np
from ragtrial.evaluation.metrics.base import Formulas, metric


class Constants(Formulas):
    @metric("order_unaware", "relevant", "1", "a package")
    def always_one(self, k):
        return np.full(len(self._graded), 1.0)
"""

FILES = {"stores": STORE, "chunkers": CHUNKER, "retrievers": RETRIEVER, "refiners": REFINER,
         "executors": EXECUTOR, "embedders": EMBEDDER, "collections": COLLECTION, "metrics": METRIC}  # fmt: skip
MEMBERS = {"stores": "shelf", "metrics": "always_one", "chunkers": "halves", "retrievers": "first", "refiners": "same",
           "embedders": "letters", "collections": "drawer", "executors": "desk"}  # fmt: skip
READ = {"importers": "cards", "tables": "stars", "sections": "weather", "search": "backwards"}

PROGRAM = """
import contextlib, io, json, sys

from ragtrial.cli.outcome import run

said = {}
for arguments in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run(arguments)
    said[" ".join(arguments[:2])] = {"code": code, "out": out.getvalue(), "err": errors.getvalue()}
print(json.dumps(said))
"""

CONFIG = """\
experiment: small
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: halves}
embedder: {kind: letters, batch_size: 1}
executor: {kind: desk}
store: {kind: shelf, boards: 5}
retrievers:
  dense: {kind: dense, top_k: 3}
  first: {kind: first, top_k: 3}
  again: {kind: same, inputs: dense, candidates: 7, times: 2, top_k: 3}
latency: false
"""


def install(folder: Path, version: str) -> None:
    """A package with a module for each member, as pip leaves it."""
    (folder / "furniture").mkdir(exist_ok=True)
    for family, text in {**FILES, "readers": READERS}.items():
        (folder / "furniture" / f"{family}.py").write_text(text, encoding="utf-8")
    about = folder / "furniture-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: furniture\nVersion: {version}\n")
    groups = {"stores": "engines", "collections": "engines"}
    points = [f"[ragtrial.{group}]\n{name} = furniture.readers" for group, name in READ.items()]
    points += [
        f"[ragtrial.{groups.get(family, family)}]\n{name} = furniture.{family}" for family, name in MEMBERS.items()
    ]
    (about / "entry_points.txt").write_text("\n".join([*points, "broken = furniture.missing:Broken", ""]))


def outcomes(site: Path, folder: Path, *commands: Sequence[str]) -> dict[str, Any]:
    """What each command prints, by its first two words, in one process that finds the package in ``site``."""
    done = python(PROGRAM, json.dumps(commands), folder=folder, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = json.loads(done.stdout)
    return outcomes


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What each command says, by its first two words, where the package is installed."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("experiment")
    install(site, "1.0")
    config = small_experiment(folder, config=CONFIG)
    wrong = config.with_name("wrong.yaml")
    wrong.write_text(CONFIG.replace("boards: 5", "boards: many").replace("times: 2", "tims: 2"), encoding="utf-8")
    broken = config.with_name("broken.yaml")
    broken.write_text(CONFIG.replace("{kind: desk}", "{kind: broken, workers: 2}"), encoding="utf-8")
    searched = config.with_name("searched.yaml")
    axis = "sweep: {matrix: {retrievers.again.times: [1, 2, 3, 4]}}\nsearch: {method: backwards, settings: 2}\n"
    searched.write_text(f"{CONFIG}{axis}", encoding="utf-8")
    stars = [{"id": row, "who": who, "stars": row * rank} for row in range(20) for rank, who in enumerate("ab", 1)]
    (folder / "stars.json").write_text(json.dumps(stars))
    (folder / "cards.json").write_text(json.dumps([{"front": "how long?", "back": "two days"}]))
    write_files(folder, {"qrels": "q 0 a 1\n", "run": "q Q0 b 1 1.0 run\n"})
    commands = [
        *(["list", family, "--json"] for family in FILES), ["schema", "config"], ["validate", str(wrong)],
        ["validate", "--json", str(broken)], ["plan", str(config), "--json"], ["run", str(config), "--json"],
        ["report", "latest", "-o", "page.html"], ["compare", "stars.json", "--weather"],
        ["run", "searched.yaml", "--json"],
        ["labels", "convert", "cards.json", "--corpus", "documents", "-o", "own.json"],
        ["score", "qrels", "run", "--metrics", "always_one@3,ndcg@3", "--json"],
    ]  # fmt: skip
    found = outcomes(site, folder, *commands)
    install(site, "1.1")
    newer = outcomes(site, folder, ["plan", str(config), "--json"])
    names = {name.removesuffix(f" {config}"): outcome for name, outcome in found.items()}
    return {"folder": folder, "newer plan": next(iter(newer.values())), **names}


@pytest.mark.parametrize("family", FILES)
def test_it_is_listed_with_the_first_line_of_its_docstring(said: Mapping[str, Any], family: str) -> None:
    listed = {one["name"]: one["description"] for one in json.loads(said[f"list {family}"]["out"])}
    assert listed[MEMBERS[family]]


def test_its_options_are_in_the_schema_and_checked_and_a_page_explains_it(said: Mapping[str, Any]) -> None:
    parts = json.loads(said["schema config"]["out"])["$defs"]
    assert set(parts) >= {"Shelf", "Halves", "First", "Same", "Desk", "Letters", "Drawer"}
    assert parts["Shelf"]["properties"]["boards"]["description"] == "How many boards it has."
    assert "inputs" in parts["Same"]["required"]
    assert parts["SearchOptions"]["properties"]["method"]["enum"] == ["random", "tpe", "backwards"]
    wrong = next(one for name, one in said.items() if name.startswith("validate /"))
    assert wrong["code"] == 2
    assert "store.boards is 'many'; it must be a whole number" in wrong["err"]
    assert "unknown key 'tims' in retrievers.again. Did you mean 'times'?" in wrong["err"]
    assert said["report latest"]["code"] == 0, said["report latest"]["err"]
    page = (said["folder"] / "page.html").read_text(encoding="utf-8")
    blocks = [gzip.decompress(b64decode(packed)) for packed in re.findall(r">(H4sI[\w+/=]+)<", page)]
    assert any(b"again: repeats the first 7 hits of dense, 2 times." in block for block in blocks)


def test_it_is_planned_or_named_where_it_cannot_be_loaded(said: Mapping[str, Any]) -> None:
    assert said["validate --json"]["code"] == 2
    broken = "the executor 'broken' of the package furniture (furniture.missing:Broken) cannot be loaded"
    assert broken in said["validate --json"]["err"]
    assert "desk" in said["list executors"]["out"]
    assert said["plan"]["code"] == 0
    assert all(kind in said["plan"]["out"] for kind in ("shelf", "halves"))
    plan = json.loads(said["newer plan"]["out"])
    to_do = {stage["stage"]: stage["why"] for stage in plan["stages"] if stage["status"] == "to do"}
    assert to_do.keys() >= {"chunks", "index", "rankings"}
    assert "version of furniture" in to_do["chunks"]


def test_a_run_reports_it_with_its_own_warnings_and_advice(said: Mapping[str, Any]) -> None:
    assert said["run"]["code"] == 0, said["run"]["err"]
    report = json.loads((said["folder"] / json.loads(said["run"]["out"])["report"]).read_text(encoding="utf-8"))
    settings = {one["name"]: one["parameters"] for one in report["settings"]}
    assert settings["dense"]["store"]["kind"] == "shelf"
    assert settings["first"]["chunker"]["kind"] == "halves"
    assert settings["again"]["retriever"] == {
        "kind": "same", "inputs": "dense", "candidates": 7, "times": 2, "top_k": 3
    }  # fmt: skip
    messages = {one["code"]: one["message"] for one in report["warnings"]}
    assert messages["heedless"] == "first: nobody looked at the questions."
    assert messages["index-not-used"].endswith("Dust the shelf.")
    assert (said["folder"] / "desk.txt").read_text() == "was asked", "the executor embeds the chunks"


def test_forms_of_other_tools_and_views_are_read_and_shown(said: Mapping[str, Any]) -> None:
    assert said["labels convert"]["code"] == 0, said["labels convert"]["err"]
    (query,) = json.loads((said["folder"] / "own.json").read_text())["queries"]
    assert (query["text"], [label["quote"] for label in query["relevant_docs"]]) == ("how long?", ["two days"])
    assert said["compare stars.json"]["code"] == 0, said["compare stars.json"]["err"]
    assert "It rains." in said["compare stars.json"]["out"]
    assert "stars" in said["compare stars.json"]["out"]


def test_a_metric_of_a_package_scores_and_comes_after_our_own(said: Mapping[str, Any]) -> None:
    assert said["score qrels"]["code"] == 0, said["score qrels"]["err"] + said["score qrels"]["out"]
    (run,) = json.loads(said["score qrels"]["out"])["runs"]
    assert run["scores"]["always_one@3"]["mean"] == 1.0
    assert json.loads(said["list metrics"]["out"])[-1]["name"] == "always_one"


def test_a_search_method_chooses_the_settings(said: Mapping[str, Any]) -> None:
    ran = said["run searched.yaml"]
    assert ran["code"] == 0, ran["err"]
    report = (said["folder"] / json.loads(ran["out"])["report"]).parent
    tried = json.loads((report / "search.json").read_text())["trials"]
    assert [trial["setting"] for trial in tried if not trial["is_given"]] == ["again-times3", "again-times4"]
    assert json.loads((report / "report.json").read_text())["search"]["is_adaptive"] is False
