"""Markdown, CSV and JUnit XML of findings: readable, valid, and harmless whatever settings are called."""

import csv
import html
import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st
from lxml import etree
from markdown_it import MarkdownIt

from gate_scenarios import HOSTILE, comparison, findings, judged, part, setting
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.gates import Findings
from ragtrial.report.schema import FailurePart, WarningPart
from ragtrial.runs.formats.writing import write_table
from ragtrial.views.findings_files import csv_columns, junit_text, markdown_text

RENDERER = MarkdownIt("commonmark").enable("table")


def everything(name: str = "new") -> Findings:
    two = part(name, -0.05, (-0.09, -0.01), sentence="worse"), part("other", 0.1, None, sentence="inconclusive")
    more = [
        part(one, 0.01, (0.0, 0.02), metric="recall@10", family="descriptive") for one in dict.fromkeys((name, "other"))
    ]
    known = {one: setting(one, ndcg_10=0.5, recall_10=0.7) for one in ("other", "base", name)}
    return findings(
        settings=known, comparison=comparison(*two, *more), gates=(judged("ndcg@10 worse than baseline", *two),),
        failures=(FailurePart(name="gone", error="no | key"),),
    )  # fmt: skip


def cells(markdown: str) -> list[list[list[str]]]:
    """The texts of every table as it is shown, without what keeps a name from being a mention: tables, rows, cells."""
    tables = re.findall(r"<table>(.*?)</table>", RENDERER.render(markdown), re.S)
    return [
        [
            [
                html.unescape(re.sub(r"</?(?:code|strong)>|\u200b", "", cell))
                for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.S)
            ]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)
        ]
        for table in tables
    ]


def test_the_page_begins_with_the_outcome_and_shows_warnings() -> None:
    text = markdown_text(everything())
    assert text.splitlines()[0] == "### kitchen: failed (1 gate: 1 failed)"
    short, other = cells(text)
    assert short == [
        ["setting", "mean", "difference", "95% interval", "verdict"],
        ["other", "0.700", "+0.100", "-", "too few differences"],
        ["base", "0.600", "", "", "(baseline)"],
        ["new", "0.550", "-0.050", "-0.090 -0.010", "worse"],
    ]
    assert other == [["differences, descriptive", "recall@10"], ["other", "+0.010"], ["new", "+0.010"]]
    shown = html.unescape(RENDERER.render(text))
    assert "<strong>failed</strong>: <code>ndcg@10 worse than baseline</code>: new -0.0500 against base, 95%" in shown
    assert "<strong>could not be run</strong>: <code>gone</code>: no | key" in shown
    assert shown.count("<details>") == shown.count("</details>") == 2
    made = everything()
    assert made.comparison is not None
    warning = WarningPart(code="other-documents", message="they searched <other> documents.")
    text = markdown_text(replace(made, comparison=made.comparison.model_copy(update={"warnings": [warning]})))
    assert "warning: they searched &lt;other&gt; documents.</li>" in RENDERER.render(text)
    assert "warning" not in markdown_text(made)
    parts = part("new", 0.1, None), part("skipping", 0.2, None, mean_baseline=0.5, n=50)
    for rows, mean in ((parts, ""), (parts[:1], "0.600")):
        short, *_ = cells(markdown_text(findings(comparison=comparison(*rows))))
        assert ["base", mean, "", "(baseline)"] in short
    short, whole = cells(markdown_text(replace(everything(), comparison=None)))
    assert short[:2] == [["setting", "ndcg@10", "n"], ["other", "0.500", "59"]]
    assert whole[0] == ["setting", "ndcg@10", "recall@10", "n"]


@pytest.mark.parametrize(("changes", "outcome"), [
    ({"failures": ()}, "failed (1 gate: 1 failed)"),
    ({"gates": ()}, "incomplete (some settings could not be run)"),
    ({"gates": (), "failures": ()}, "compared"),
    ({"gates": (), "failures": (), "comparison": None}, "scored"),
])  # fmt: skip
def test_the_heading_says_what_it_came_to(changes: dict[str, object], outcome: str) -> None:
    assert markdown_text(replace(everything(), **changes)).splitlines()[0] == f"### kitchen: {outcome}"  # type: ignore[arg-type]


@settings(max_examples=60)
@given(st.text(st.characters(), min_size=1, max_size=20) | st.sampled_from(HOSTILE))
def test_any_name_stands_in_its_cell_and_does_nothing(name: str) -> None:
    text = markdown_text(everything(name))
    visible = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name)
    short, other = cells(text)
    assert [len(row) for row in short] == [5] * 4
    assert [row[0].split() for row in short[1:]].count(visible.split()) >= 1
    assert visible.split() in [row[0].split() for row in other]
    assert "<script" not in RENDERER.render(text).replace("&lt;script", "")
    assert not re.search(r"<(?:a|em|img|h[1-6])\b", RENDERER.render(text).replace("<h3>", "", 1))


def test_the_csv_has_a_row_for_each_comparison_with_all_fields(tmp_path: Path) -> None:
    made = comparison(part("new", -0.05, (-0.09, -0.01)), part("other", None, None, n=0))
    write_table(tmp_path / "out.csv", csv_columns(made), form="csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(encoding="utf-8"))))
    assert set(rows[0]) == (set(ComparisonPart.model_fields) - {"ci"}) | {"ci_low", "ci_high"}
    assert [(row["setting"], row["difference"], row["ci_low"], row["ci_high"]) for row in rows] == [
        ("new", "-0.05", "-0.09", "-0.01"),
        ("other", "", "", ""),
    ]


SCHEMA = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
 <xs:element name="testsuites"><xs:complexType><xs:sequence>
  <xs:element name="testsuite" minOccurs="0" maxOccurs="unbounded"><xs:complexType>
   <xs:sequence>
    <xs:element name="testcase" maxOccurs="unbounded"><xs:complexType>
     <xs:sequence>
      <xs:choice minOccurs="0">
       <xs:element name="skipped" type="ending"/>
       <xs:element name="error" type="ending"/><xs:element name="failure" type="ending"/>
      </xs:choice>
      <xs:element name="system-out" type="xs:string"/>
     </xs:sequence>
     <xs:attribute name="name" type="xs:token" use="required"/>
     <xs:attribute name="classname" type="xs:token" use="required"/>
    </xs:complexType></xs:element>
    <xs:element name="system-out" type="xs:string" minOccurs="0"/>
   </xs:sequence>
   <xs:attribute name="name" type="xs:token" use="required"/>
   <xs:attribute name="tests" type="xs:int" use="required"/><xs:attribute name="failures" type="xs:int" use="required"/>
   <xs:attribute name="errors" type="xs:int" use="required"/><xs:attribute name="skipped" type="xs:int"/>
  </xs:complexType></xs:element>
 </xs:sequence></xs:complexType></xs:element>
 <xs:complexType name="ending"><xs:simpleContent><xs:extension base="xs:string">
  <xs:attribute name="message" type="xs:string"/>
 </xs:extension></xs:simpleContent></xs:complexType>
</xs:schema>
"""
"""Of the schema of Jenkins what is written here."""


def suites(made: Findings) -> dict[str, ET.Element]:
    """By name; asserts that the document is valid."""
    text = junit_text(made)
    etree.XMLSchema(etree.fromstring(SCHEMA)).assertValid(etree.fromstring(text.encode("utf-8")))
    return {suite.attrib["name"]: suite for suite in ET.fromstring(text)}


def all_kinds(name: str = "new") -> Findings:
    """Gates, comparisons and a setting that failed."""
    two = part(name, -0.05, (-0.09, -0.01), sentence="worse"), part("other", 0.1, (0.05, 0.15), sentence="better")
    known = {one: setting(one, ndcg_10=0.5) for one in (name, "other", "base")}
    gate, bound = judged("ndcg@10 worse than baseline", *two), judged("ndcg@10 < 0.5", settings=list(known.values()))
    return findings(
        settings=known, comparison=comparison(*two), gates=(gate, bound),
        failures=(FailurePart(name="gone", error="no key"),),
    )  # fmt: skip


def test_each_gate_is_a_test_counted_and_a_failed_setting_an_error() -> None:
    made = suites(all_kinds())
    assert list(made) == ["gates", "comparison", "settings"]
    worse, bound = made["gates"].findall("testcase")
    assert (worse.attrib, [child.tag for child in bound]) == (
        {"name": "ndcg@10 worse than baseline", "classname": "ragtrial.kitchen.gates"}, ["system-out"],
    )  # fmt: skip
    failure, _ = worse
    assert failure.attrib == {
        "message": "gate failed: ndcg@10 worse than baseline: new -0.0500 against base, 95% interval -0.0900 to "
        "-0.0100: worse; 1 other passed"
    }
    assert (failure.text or "").splitlines() == [
        "new: failed: -0.0500 against base, 95% interval -0.0900 to -0.0100: worse",
        "other: passed: +0.1000 against base, 95% interval +0.0500 to +0.1500: not shown to be worse",
    ]
    for suite in suites(all_kinds()).values():
        cases = suite.findall("testcase")
        assert suite.attrib["tests"] == str(len(cases))
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.attrib[count] == str(sum(case.find(tag) is not None for case in cases))
    (case,) = suites(all_kinds())["settings"].findall("testcase")
    assert [(child.tag, child.attrib.get("message")) for child in case] == [("error", "no key"), ("system-out", None)]


def test_what_was_found_for_every_compared_setting_is_the_output_of_its_suite() -> None:
    suite = (by_name := suites(all_kinds()))["comparison"]
    (case,) = suite.findall("testcase")
    assert case.attrib["name"] == "comparison by ndcg@10"
    assert (case.findtext("system-out") or "").splitlines() == [
        "Baseline: base, ndcg@10 0.600",
        "  better  other (+0.100, 95% CI +0.050 to +0.150)",
        "  worse   new (-0.050, 95% CI -0.090 to -0.010)",
        "Next: replace base by other, after a look at the questions that it loses",
        "new against base: -0.050, interval -0.090 to -0.010: worse",
        "other against base: +0.100, interval +0.050 to +0.150: better",
    ]
    assert (suite.findtext("system-out") or "").splitlines() == ["", "Signs were flipped."]
    assert [name for name, suite in by_name.items() if suite.find("system-out") is not None] == ["comparison"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_read_as_they_are_and_what_xml_cannot_hold_as_python_writes_it(name: str) -> None:
    case = suites(all_kinds(name))["comparison"].findall("testcase")[0].findtext("system-out") or ""
    shown = name.replace("\x07", "\\x07").replace("\x1b", "\\x1b").replace("\ud800", "\\ud800")
    assert f"{shown} against base: -0.050" in case
