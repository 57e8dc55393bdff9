"""The guides tell the truth: followed in a project of `ragtrial init`, their commands print what they show."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from pages import copy_sample, fastest_precision, fenced, replace_sections
from ragtrial import Report, load_report
from report_hits import values_of
from scripts import run_python, run_script

FOLDER = Path(__file__).parents[2] / "docs" / "guides"
GUIDES = sorted(FOLDER.glob("*.md"))
CHUNK_SIZE, HYBRID, LANGCHAIN, _, VECTOR_SIZE = GUIDES
ALIKE = 0.03
"""Machines differ in the last bits of vectors: a chunk may be one rank higher or lower, with one-bit vectors more."""


@dataclass(frozen=True)
class Project:
    """A project that `ragtrial init` wrote for the sample data, with its config as it was then."""

    folder: Path
    config: str
    variables: dict[str, str]

    def follow(self, guide: Path, **changes: object) -> None:
        """Write the config with the sections of the guide, and these changes to them."""
        config = self.folder / "experiment.yaml"
        config.write_text(self.config, encoding="utf-8")
        (shown,) = fenced(guide, "yaml")
        replace_sections(config, shown, **changes)

    def run(self, commands: str) -> str:
        """The output of commands, all of which succeed."""
        return run_script(commands, self.folder, **self.variables).out

    def latest(self) -> Report:
        results = self.folder / "results" / "support"
        return load_report(results / (results / "latest").read_text(encoding="utf-8").strip())


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory, shared_workspace: Path) -> Project:
    """The project that every guide names, in a copy of the clone."""
    clone = copy_sample(root, tmp_path_factory.mktemp("clone"))
    pattern = re.compile(r"`(ragtrial init [^`]*)`, then `(cd \w+)`")
    ((init, enter),) = {match for guide in GUIDES for match in pattern.findall(guide.read_text(encoding="utf-8"))}
    (copied,) = re.findall(r"`(cp [^`]*)`", LANGCHAIN.read_text(encoding="utf-8"))
    run_script("\n".join([init, enter, copied]), clone)
    folder = clone / "support"
    config = folder / "experiment.yaml"
    embedder = yaml.safe_load(config.read_text(encoding="utf-8"))["embedder"]
    replace_sections(config, "{}", embedder={**embedder, "precision": fastest_precision()}, latency=False)
    variables = {"COLUMNS": "160", "RAGTRIAL_WORKSPACE": str(shared_workspace)}
    return Project(folder, config.read_text(encoding="utf-8"), variables)


Table = tuple[list[str], dict[str, list[str]]]
"""The header, and the other cells of each row by its first."""


def tables(text: str) -> list[Table]:
    """Empty lines separate tables, and two spaces or more the cells."""
    blocks = [
        [re.split(r" {2,}", line.strip()) for line in block.splitlines()] for block in re.split(r"\n{2,}", text.strip())
    ]
    return [(head, {name: cells for name, *cells in rows if cells}) for head, *rows in blocks]  # without notes


def assert_shows(guide: Path, printed: str, *others: str, some_rows: bool = False) -> None:
    """The tables of a guide, except ``others``, are as printed; ``some_rows`` if not all of them were run."""
    shown = [table for block in fenced(guide, "text") if block not in others for table in tables(block)]
    for head, rows in shown:
        columns, found = next(one for one in tables(printed) if one[0][0] == head[0] and {*head} <= {*one[0]})
        assert some_rows or found.keys() == rows.keys()
        for name, cells in found.items():
            values = dict(zip(columns[1:], cells, strict=True))
            for column, cell in zip(head[1:], rows[name], strict=True):
                # The worst question of an index that is built at random may lose a hit or none.
                alike = is_alike(values[column], cell, exactly=name.startswith("bm25"))
                assert alike or column == "lowest", (name, column, values[column])


def is_alike(printed: str, shown: str, *, exactly: bool) -> bool:
    if exactly or not re.fullmatch(r"[+-]?[\d,]*\d(\.\d+)?", shown):
        return printed == shown
    value, expected = (float(text.replace(",", "")) for text in (printed, shown))
    return value == pytest.approx(expected, abs=ALIKE, rel=ALIKE)


@pytest.mark.parametrize(
    ("page", "block", "name"),
    [
        *((guide, 0, guide.stem) for guide in GUIDES),
        (FOLDER.parent / "chunkers.md", 0, "chunking"),
        (FOLDER.parent / "contextual-text.md", 1, "contextual"),
    ],
)
def test_the_config_that_a_page_names_has_its_sections(root: Path, page: Path, block: int, name: str) -> None:
    shown = yaml.safe_load(fenced(page, "yaml")[block])
    assert f"(`configs/{name}.yaml` in the clone" in page.read_text(encoding="utf-8")
    config = yaml.safe_load((root / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert {"unit": "document", **config.pop("evaluators")}.items() >= shown.pop("evaluators").items()
    assert config.items() >= shown.items()


@pytest.mark.parametrize("guide", [guide for guide in GUIDES if guide != CHUNK_SIZE], ids=lambda guide: guide.stem)
def test_a_guide_s_commands_print_what_it_shows(project: Project, guide: Path) -> None:
    project.follow(guide)
    printed = project.run("".join(fenced(guide, "sh")))
    if guide == HYBRID:
        (code,) = fenced(guide, "python")
        printed += "\n\n" + run_python(code, project.folder, **project.variables)
        hub_03 = [text.partition("\nquery ")[0] for text in printed.split("\nquery hub-03: ")[1:]]
        ranks = [re.findall(r"^ +(\d+)  .*hub/hub-power-supply\.md", text, re.MULTILINE) for text in hub_03]
        assert [bool(rank) and int(rank[0]) <= 3 for rank in ranks] == [False, True]
        assert_reads_as_the_hybrid_guide_says(project.latest())
    if guide == LANGCHAIN:
        told = "chunks longer than the 256 tokens that the model reads: 77"
        assert told in " ".join(guide.read_text(encoding="utf-8").split())
        assert any(told in warning.message for warning in project.latest().warnings)
    if guide == VECTOR_SIZE:
        assert_effects_are_alike(project.run("ragtrial compare --axes").partition("\n\n")[0])
    assert_shows(guide, printed)


def assert_effects_are_alike(printed: str) -> None:
    """The table of another page, without its intervals: fewer than ten questions may differ on another machine."""
    page = FOLDER.parent / "comparing-sweeps.md"
    (shown,) = [text for text in fenced(page, "text") if text.startswith("effect on ndcg@10")]
    for line, printed_line in zip(shown.splitlines()[1:], printed.splitlines()[1:], strict=True):
        *cells, _, _ = re.split(r" {2,}", line.strip())
        for printed_cell, cell in zip(re.split(r" {2,}", printed_line.strip()), cells, strict=False):
            assert is_alike(printed_cell, cell, exactly=False)


def assert_reads_as_the_hybrid_guide_says(report: Report) -> None:
    tags = {query.id: query.tags for query in report.queries}

    def scores(setting: str, tag: str, metric: str = "ndcg@10") -> list[float]:
        values = values_of(report, setting, metric).items()
        return [value for name, value in values if value is not None and tag in tags[name]]

    def order(tag: str) -> list[str]:
        return sorted((setting.name for setting in report.settings), key=lambda name: -sum(scores(name, tag)))

    assert (order("error-code")[0], order("error-code")[-1]) == ("bm25", "dense")
    assert (order("paraphrase")[0], order("paraphrase")[-1]) == ("dense", "bm25")
    assert scores("bm25", "error-code", "rr@10") == [1.0] * 13
    assert len(scores("bm25", "paraphrase")) == 18
    assert values_of(report, "bm25", "ndcg@10")["hub-06"] == 0.0


def test_the_chunk_size_guide_shows_what_its_commands_print(project: Project) -> None:
    """All settings of BM25, and of `dense` the size that the other guides have embedded: the others take minutes."""
    validate, run_and_compare = fenced(CHUNK_SIZE, "sh")
    run, compare = run_and_compare.splitlines()
    cuts, _ = fenced(CHUNK_SIZE, "text")
    (shown,) = map(yaml.safe_load, fenced(CHUNK_SIZE, "yaml"))
    project.follow(CHUNK_SIZE)
    printed = project.run(validate)
    assert {*cuts.splitlines()} <= {*printed.splitlines()}
    assert "is valid; 12 settings" in printed
    retrievers, ((key, sizes),) = shown["retrievers"], shown["sweep"]["matrix"].items()
    for name, tried in (("bm25", sizes), ("dense", sizes[-1:])):
        project.follow(CHUNK_SIZE, retrievers={name: retrievers[name]}, sweep={"matrix": {key: tried}})
        assert_shows(CHUNK_SIZE, project.run(run), cuts, some_rows=True)
        assert name == "dense" or "effect on recall@10" in project.run(compare)
