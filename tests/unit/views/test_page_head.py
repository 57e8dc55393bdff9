"""The page opens with the result, its verdict and where it is from; warnings and every caution are on it."""

import gzip
import html
import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contests import report_of
from edited_reports import edit_report
from expectations import present
from experiments import DOCUMENTS, QUERIES, QUOTED, write_experiment
from ragtrial import load_config, run_experiment
from ragtrial.comparison.comparing import ComparisonOptions, options_of
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import VerdictLinePart
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.comparison.sweep_effects import EffectPart, EffectsPart, LevelsPart
from ragtrial.report.model import Report, write_folder
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.page import html_page, page
from ragtrial.views.page.verdict import MOST_NAMED_ROWS, Axis, axis_over, effects_of, verdict_of
from ragtrial.views.table import Table

RETRIEVERS = {"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}}
SHORT = {name: {**retriever, "top_k": 1} for name, retriever in RETRIEVERS.items()}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of a run with a query that has no labels, which is a warning."""
    return run_experiment(write_experiment(tmp_path_factory.mktemp("head"), retrievers=RETRIEVERS).config())


def page_of(*folders: Path, **asked: Any) -> str:
    contest = input_of([str(folder) for folder in folders], **asked)
    return page(contest, options_of(contest)).decode()


def text_of(*folders: Path) -> str:
    """The text of the page, without its data and program."""
    body = page_of(*folders, may_be_one=True).partition("<body>")[2].partition("<script")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_it_says_where_the_numbers_are_from_and_the_verdict(report: Report) -> None:
    text = text_of(report.folder)
    date = datetime.strptime(report.run_id[:15], "%Y%m%dT%H%M%S")
    for said in (
        f"kitchen : 2 settings on {len(DOCUMENTS)} documents, {len(QUERIES)} questions",
        f"{date.day} {date:%B %Y, %H:%M} UTC",
        f"Run {report.run_id} , ragtrial",
        "experiment: kitchen",
    ):
        assert said in text.replace(" ,", " ,").replace(f"{report.run_id},", f"{report.run_id} ,"), said
    contest = input_of([str(report.folder)])
    conclusion = analyse(contest, options_of(contest)).conclusion
    assert conclusion.sentences[0] in text
    assert conclusion.next_step.command in text
    assert report.warnings
    assert all(warning.message in text for warning in report.warnings)


def test_each_of_several_reports_is_named(report: Report, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(report.folder, other)
    edit_report(other, report.run_id, "20200102T030405Z-abcdef")
    text = text_of(report.folder, other)
    assert text.count("2 settings on 6 documents") == 2
    assert "other : 2 settings on 6 documents" in text
    assert "2 January 2020, 03:04 UTC" in text
    assert "Run 20200102T030405Z-abcdef" in text


def test_under_unit_span_scores_within_the_budget_are_beside_those_at_k(tmp_path: Path, minilm_folder: Path) -> None:
    embedder = {"kind": "custom", "function": "embedding:embed", "tokenizer_model": str(minilm_folder)}
    made = write_experiment(tmp_path, queries=QUOTED, retrievers=RETRIEVERS, embedder=embedder,
                            evaluators={"unit": "span", "budget": 30})  # fmt: skip
    report = run_experiment(made.config())
    text = page_of(report.folder)
    tables = text.partition("<b>Scores</b>")[2].partition("<b>First")[0]
    assert re.findall(r"<caption><span>(.*?)</span>", tables) == [
        "Means at the cutoff of each metric", "Means at equal context",
    ]  # fmt: skip
    budget = report.settings[0].budget
    assert budget
    assert f"within {budget.tokens:,} tokens" in tables
    row = next(row for row in re.findall(r"<tr>(.*?)</tr>", tables.partition(f"within {budget.tokens}")[2])
               if f">{report.settings[0].name}<" in row)  # fmt: skip
    assert f">{budget.scores['recall'].mean:.3f}<" in row


def test_without_labels_it_says_so_and_compares_nothing(tmp_path: Path) -> None:
    unlabelled = [{**query, "relevant_docs": []} for query in QUERIES]
    report = run_experiment(write_experiment(tmp_path, queries=unlabelled, retrievers=RETRIEVERS).config())
    text = page_of(report.folder, may_be_unlabelled=True)
    assert "4 questions searched, none scored: no question has a label that counts" in text
    assert "Label at least 10 questions" in text
    for absent in ('id="plot"', 'id="failing"', "<b>Scores</b>", "<b>Comparisons</b>", "no label and count", "Too few"):
        assert absent not in text


def test_passages_have_their_length_beside_the_score_and_no_share_of_labels(tmp_path: Path) -> None:
    """A chunker that keeps whole documents finds every passage, at the price of long contexts."""
    long = {"kind": "bm25", "top_k": 3, "chunker": {"kind": "document"}}
    made = write_experiment(tmp_path, queries=QUOTED, retrievers={"long": long, "words": RETRIEVERS["words"]},
                            evaluators={"unit": "span"})  # fmt: skip
    report = run_experiment(made.config())
    text = page_of(report.folder)
    head, _, rows = text.partition('<section id="plot">')[2].partition("<tbody>")
    assert "characters in the first 3" in head
    assert "first hits labelled" not in head
    costs = {setting.name: setting.cost("characters@3") for setting in report.settings}
    assert all(f' data-k="characters">{cost:,.0f}</td>' in rows for cost in costs.values() if cost)
    assert "Text without a label counts as not relevant." in text


@pytest.mark.parametrize(("quote", "shown"), [
    (DOCUMENTS["oven.txt"][4:30], DOCUMENTS["oven.txt"][4:30].strip()),
    *(("frost " * 66 + last, "frost " * 66 + shown) for last, shown in (("cold", "cold"), ("colds", "…"))),
])  # fmt: skip
def test_an_answer_that_no_setting_found_is_quoted(quote: str, shown: str, tmp_path: Path) -> None:
    """In 400 characters. Or how its document begins, where the label names the whole of it."""
    doc = "freezer.txt"
    documents = {**DOCUMENTS, doc: "Frozen peas wait at minus eighteen degrees."}
    documents["oven.txt"] += "" if quote in documents["oven.txt"] else f"\n\n{quote}"
    lost = [{"id": "lost", "text": "rye bread", "relevant_docs": [{"doc": "oven.txt", "quote": quote}]},
            *({"id": one, "text": f"rye bread {one}", "relevant_docs": [{"doc": doc}]} for one in "abc")]  # fmt: skip
    report = run_experiment(write_experiment(tmp_path, documents, [*QUERIES, *lost], retrievers=SHORT).config())
    cards = page_of(report.folder).partition('id="failing"')[2].partition("</section>")[0]
    assert f"<b>oven.txt</b>: <mark>{html.escape(shown)}</mark>" in cards
    assert f"<b>{doc}</b>: Frozen peas wait at minus eighteen degrees.</dd>" in cards
    assert re.findall(r"<h3 [^>]*>(.*?)</h3>", cards) == ["rye bread", "rye bread a", "rye bread b"]


def test_a_question_whose_first_hit_answers_shows_the_answer_that_is_missed(tmp_path: Path) -> None:
    """The first hit, bread/rye.md, has the highest grade; bread/rolls.md, titled Quick rolls, is missing."""
    short = {name: SHORT[name] for name in ("words", "dense")}
    metrics = {"order_unaware": {"metrics": ["recall"]}, "primary_metric": "recall@1"}
    report = run_experiment(
        write_experiment(tmp_path, queries=QUERIES[:2], retrievers=short, evaluators=metrics).config()
    )
    (card,) = re.findall(r"<article>.*?</article>", page_of(report.folder), re.DOTALL)
    (should, found) = re.findall(r"<dd[^>]*><b>(.*?)</b>", card)
    assert (should, found) == ("Quick rolls", "Rye bread")
    assert "No setting has this answer in the first" in card


def test_a_passage_stands_under_the_nearest_heading_above_it(tmp_path: Path) -> None:
    """Which is not the last heading of its chunk, nor the first."""
    guide = "# Guide\n\n## First steps\n\nPlug it in.\n\n## Repairs\n\nCall **the shop** on Monday.\n\n## Waste\n\nNo."
    label = {"doc": "guide.md", "quote": "Call **the shop** on Monday."}
    query = {"id": "q", "text": "rye bread", "relevant_docs": [label]}
    documents = {**DOCUMENTS, "guide.md": guide}
    report = run_experiment(write_experiment(tmp_path, documents, [*QUERIES, query], retrievers=SHORT).config())
    cards = re.findall(r"<article>.*?</article>", page_of(report.folder), re.DOTALL)
    (card,) = (card for card in cards if ">rye bread</h3>" in card)
    assert "<b>Guide › Repairs</b>: <mark>Call the shop on Monday.</mark>" in card
    assert '<dt>It found first</dt><dd dir="auto"><b>Rye bread</b>' in card


def test_of_many_queries_the_page_shows_a_random_sample(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = page_of(report.folder)
    assert "A random sample" not in whole
    monkeypatch.setattr(html_page, "MOST_SHOWN", 2 * len(report.settings))
    sampled = page_of(report.folder)
    assert f"A random sample of 2 of {len(QUERIES)} questions. All other numbers are over all;" in sampled
    assert len(block(whole, "summary")["queries"]) == len(QUERIES)
    queries = block(sampled, "summary")["queries"]
    assert len(queries) == 2
    by_id = {query["id"]: place for place, query in enumerate(block(whole, "summary")["queries"])}
    for one, every in zip(block(sampled, "summary")["values"], block(whole, "summary")["values"], strict=True):
        wanted = [[row[by_id[query["id"]]] for query in queries] for row in every]
        assert one == wanted
    for found in block(sampled, "hits")["found"]:
        assert len(found["lengths"]) == 2
    verdicts = re.compile(r'<section id="(?:verdict|plot)">.*?</section>', re.DOTALL)
    assert len(verdicts.findall(whole)) == 2
    assert verdicts.findall(sampled) == verdicts.findall(whole)


def block(text: str, name: str) -> Any:
    """What the page's program reads under this name."""
    (packed,) = re.findall(rf'<script[^>]* id="{name}"[^>]*>([^<]*)</script>', text)
    return json.loads(gzip.decompress(b64decode(packed)))


@pytest.mark.parametrize(("others", "line"), [
    (["1,100", "9.0", "-"], "MB: 2.0 (a) to 9.0 (b)"),
    (["1,300", "9.0", "-"], "tokens@10: 1,000 (a) to 1,300 (b)"),
    (["1,100", "-", "-"], "alike for all settings"),
    (["1,300", "9.0", "2.5"], "tokens@10: 1,000 (a) to 1,300 (b); embed s: up to 2.5"),
    (["1,100", "-", "2.5"], "alike for all settings; embed s: up to 2.5"),
    (None, "those of a"),
])  # fmt: skip
def test_the_line_of_the_costs_names_the_first_that_differs_by_a_fifth(others: list[str] | None, line: str) -> None:
    rows = [["a", "1,000", "2.0", "-"], *([["b", *others]] if others else [])]
    assert html_page._costs_line(Table.of(["costs", "tokens@10", "MB", "embed s"], rows)) == line


def test_times_of_embedding_that_differ_are_named_with_their_settings() -> None:
    rows = [["a", "1,000", "2.0"], ["b", "1,300", "172.0"], ["bm25", "1,000", "-"]]
    line = "tokens@10: 1,000 (a) to 1,300 (b); embed s: 2.0 (a) to 172.0 (b)"
    assert html_page._costs_line(Table.of(["costs", "tokens@10", "embed s"], rows)) == line
    assert html_page._costs_line(Table.of(["costs", "embed s"], [row[::2] for row in rows])) == line.split("; ")[1]


QUICK = Procedure(flips=500)


def analysed(
    folder: Path, settings: int, baseline: str | None = None, step: float = 0.01
) -> tuple[ComparisonInput, Analysis]:
    """Settings of which each is worse by about ``step`` than the one before, on 30 questions."""
    random = np.random.default_rng(0)
    hard = random.uniform(0.3, 0.7, 30)
    noise = random.normal(0, 0.01, (settings, 30)) * step / 0.01
    values = {f"s{place:02}": list(hard - step * place + noise[place]) for place in range(settings)}
    report = write_folder(report_of(values, "ndcg@3"), folder / "report", {}, [], {})
    contest = input_of([report], ["ndcg@3"], baseline=baseline)
    return contest, analyse(contest, ComparisonOptions(baseline, procedure=QUICK))


@pytest.mark.parametrize(("step", "badge"), [(0.01, "Best"), (0.0, "All identical")])
def test_lines_of_few_settings_are_those_of_the_terminal(tmp_path: Path, step: float, badge: str) -> None:
    _, analysis = analysed(tmp_path, 5, step=step)
    shown = verdict_of(analysis, None)
    terminal = [re.sub(r" {2,}", " ", line.strip()) for line in analysis.conclusion.sentences[1:-1]]
    assert [f"{label} {text}" for label, text in shown.lines] == terminal
    assert shown.badge == badge
    assert f"{shown.badge}: {shown.headlines[0]}" == analysis.conclusion.sentences[0]


def test_the_line_about_other_pairs_names_no_option_of_the_terminal() -> None:
    rows = [{"question": f"q{row}", **{name: 0.1 * place for place, name in enumerate("abcde")}} for row in range(12)]
    text = page(input_of([rows]), ComparisonOptions(procedure=QUICK)).decode()
    assert "All 10 pairs were compared; shown are those with e, the best mean.</p>" in text


@pytest.mark.parametrize("baseline", [None, "s05"])
def test_lines_of_many_settings_count_each_once_and_keep_their_caution(tmp_path: Path, baseline: str | None) -> None:
    _, analysis = analysed(tmp_path, MOST_NAMED_ROWS + 4, baseline)
    lines = analysis.conclusion.lines
    split = [
        VerdictLinePart(label=line.label, settings=some, detail="", depends_on_unjudged=depends)
        for line in lines
        for some, depends in ((line.settings[:1], False), (line.settings[1:], True))
        if some
    ]
    conclusion = analysis.conclusion.model_copy(update={
        "lines": split,
        "sentences": [analysis.conclusion.sentences[0], *["  a  b"] * len(split), analysis.conclusion.sentences[-1]],
    })  # fmt: skip
    shown = verdict_of(analysis.model_copy(update={"conclusion": conclusion}), None)
    assert [label for label, _ in shown.lines] == [line.label for line in split]
    counts = [int(match[1]) for _, text in shown.lines if (match := re.match(r"(?:all )?(\d+) ", text))]
    assert sum(counts) == MOST_NAMED_ROWS + 3 == len(analysis.settings) - 1
    assert ["with the current labels" in text for _, text in shown.lines] == [
        line.depends_on_unjudged for line in split
    ]


@pytest.mark.parametrize(("ci", "sign", "verdict"), [
    ((0.01, 0.3), 1, "better"), ((-0.3, -0.1), 1, "worse"), ((-0.3, 0.1), 1, "inconclusive"),
    ((0.01, 0.3), -1, "worse"), ((-0.01, 0.3), 1, "no worse"),
])  # fmt: skip
def test_the_verdict_of_an_effect_is_that_of_its_interval(ci: tuple[float, float], sign: int, verdict: str) -> None:
    effect = EffectPart(
        levels=LevelsPart(parameter="chunker.size", reference=10, level=20), matched=2, mean_reference=0.3, mean=0.4,
        difference=sum(ci) / 2, ci=ci, p_corrected=None, n=30, differing=30, by_retriever={},
    )  # fmt: skip
    assert effects_of(EffectsPart(metric="m", effects=[effect]), sign, 0.02, 0.95).rows[0].verdict.startswith(verdict)


@pytest.mark.parametrize("values", [[0.03, -0.2], [0.0], [-1e-4, 2e-4], [0.5], [12.0, -3.0]])
def test_an_axis_has_all_values_and_0_between_at_most_eight_ticks(values: list[float]) -> None:
    axis = axis_over(values)
    assert axis.low <= min(0, *values)
    assert axis.high >= max(0, *values)
    assert 2 <= len(axis.ticks) <= 8
    assert np.diff(axis.ticks) == pytest.approx(axis.ticks[1] - axis.ticks[0])
    assert len(set(map(axis.label, axis.ticks))) == len(axis.ticks)


def test_the_band_of_the_margin_ends_with_the_axis() -> None:
    assert Axis(-0.1, 0.1, [-0.1, 0.0, 0.1]).band(0.02) == ("40.0%", "20.0%")
    assert Axis(-0.08, 0.0, [-0.08, 0.0]).band(0.02) == ("75.0%", "25.0%")


@pytest.fixture(scope="module")
def swept(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A sweep over the sample data, in which no setting is shown to be better."""
    return run_experiment(load_config({
        "experiment": "sweep", "store": {"kind": "exact"}, "output": {"directory": str(tmp_path_factory.mktemp("a"))},
        "dataset": {"corpus": str(root / "data" / "support"), "queries": str(root / "prompt_queries.json")},
        "chunker": {"kind": "recursive", "size": 400, "overlap": 0, "unit": "characters"},
        "retrievers": {"bm25": {"kind": "bm25"}}, "evaluators": {"primary_metric": "ndcg@10"},
        "sweep": {"matrix": {"chunker.size": [400, 800], "retrievers.bm25.title_weight": [1, 2]}},
    }))  # fmt: skip


def test_each_mark_of_a_plot_is_in_the_key_below_it(swept: Report) -> None:
    text = page_of(swept.folder)
    for section in ("plot", "effects"):
        part = text.partition(f'<section id="{section}">')[2].partition("</section>")[0]
        drawn = set(re.findall(r'<svg class="p (\w+)" role="img"', part))
        assert set(re.findall(r'<svg class="p (\w+)" aria-hidden="true">', part)) == drawn != set()


@pytest.mark.parametrize("names", [("words", "dense"), ("dense", "words")])
def test_where_nothing_is_ranked_settings_stay_in_the_order_of_the_config(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """Their means differ, so one of the two orders is not that of the means."""
    experiment = write_experiment(tmp_path, retrievers={name: SHORT[name] for name in names})
    report = run_experiment(experiment.config())
    assert len({present(setting.scores[report.primary_metric].mean) for setting in report.settings}) == 2
    text = page_of(report.folder)
    plot, summary = text.partition('id="plot"')[2].partition("</section>")[0], block(text, "summary")
    assert re.findall(r'<td class="name">(\w+)<', plot) == [*names]
    assert [summary["settings"][place] for place in summary["order"]] == [*names]
    is_weak = present(report.setting(names[0]).scores[report.primary_metric].mean) < 1
    assert re.findall(r"<h2>Where (\w+) is weakest</h2>", text) == [names[0]] * is_weak


def test_equally_long_passages_have_their_length_in_a_column(tmp_path: Path) -> None:
    words = RETRIEVERS["words"]
    retrievers = {"words": words, "twin": {**words, "k1": 1.4}}
    experiment = write_experiment(tmp_path, queries=QUOTED, retrievers=retrievers, evaluators={"unit": "span"})
    assert "characters in the first 3" in page_of(run_experiment(experiment.config()).folder)


def test_a_plot_says_that_a_setting_was_picked_only_without_a_baseline(swept: Report) -> None:
    contest = input_of([str(swept.folder)])
    options = options_of(contest)
    for baseline, is_picked in ((None, True), (contest.names[0], False)):
        text = page(contest, replace(options, baseline=baseline)).decode()
        plot = text.partition('<section id="plot">')[2].partition("</section>")[0]
        assert ("bootstrap resamples" in plot) == is_picked
