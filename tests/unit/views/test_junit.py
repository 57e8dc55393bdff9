"""JUnit XML: what the schema of Jenkins allows, with what was found, whatever settings are called."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from gate_scenarios import HOSTILE, comparison, findings, judged, part, setting
from ragtrial.comparison.gates import ExpectedScore, Findings, judge_expected
from ragtrial.report.schema import FailurePart
from ragtrial.views.findings_files import junit_text

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

VALID = etree.XMLSchema(etree.fromstring(SCHEMA))


def suites(made: Findings) -> dict[str, ET.Element]:
    """By name; asserts that the document is valid."""
    text = junit_text(made)
    VALID.assertValid(etree.fromstring(text.encode("utf-8")))
    return {suite.attrib["name"]: suite for suite in ET.fromstring(text)}


def everything(name: str = "new") -> Findings:
    two = part(name, -0.05, (-0.09, -0.01), sentence="worse"), part("other", 0.1, (0.05, 0.15), sentence="better")
    known = {one: setting(one, ndcg_10=0.5) for one in (name, "other", "base")}
    expected = [ExpectedScore(name, "ndcg@10", value) for value in (0.5, 0.505, 0.7)] + [
        ExpectedScore("gone", "rr@10", 1)
    ]
    gate, bound = judged("ndcg@10 worse than baseline", *two), judged("ndcg@10 < 0.5", settings=list(known.values()))
    return findings(
        settings=known, comparison=comparison(*two), gates=(gate, bound),
        expected=tuple(judge_expected(expected, known, ["gone"])), failures=(FailurePart(name="gone", error="no key"),),
    )  # fmt: skip


def test_a_gate_and_an_expected_score_are_a_test_each_and_fail_with_what_was_found() -> None:
    made = suites(everything())
    assert list(made) == ["gates", "expected", "comparison", "settings"]
    worse, bound = made["gates"].findall("testcase")
    assert (worse.attrib, [child.tag for child in bound]) == (
        {"name": "ndcg@10 worse than baseline", "classname": "ragtrial.kitchen.gates"}, ["system-out"],
    )  # fmt: skip
    failure, _ = worse
    assert failure.attrib == {
        "message": "gate failed: ndcg@10 worse than baseline: new -0.0500 against base, 95% interval -0.0900 to "
        "-0.0100: worse; 1 other passed",
    }
    assert (failure.text or "").splitlines() == [
        "new: failed: -0.0500 against base, 95% interval -0.0900 to -0.0100: worse",
        "other: passed: +0.1000 against base, 95% interval +0.0500 to +0.1500: not shown to be worse",
    ]
    ends = [[child.tag for child in case][:-1] for case in made["expected"].findall("testcase")]
    assert ends == [[], [], ["failure"], ["skipped"]]
    assert "new ndcg@10 is 0.5000, expected 0.5050" in (made["expected"][1].findtext("system-out") or "")


def test_counts_are_those_of_the_tests() -> None:
    for suite in suites(everything()).values():
        cases = suite.findall("testcase")
        assert suite.attrib["tests"] == str(len(cases))
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.attrib[count] == str(sum(case.find(tag) is not None for case in cases))


def test_what_was_found_for_every_compared_setting_is_the_output_of_its_suite() -> None:
    suite = suites(everything())["comparison"]
    (case,) = suite.findall("testcase")
    assert case.attrib["name"] == "comparison by ndcg@10"
    assert (case.findtext("system-out") or "").splitlines() == [
        "Baseline: base, ndcg@10 0.600",
        "  better  other (+0.100, 95% CI +0.050 to +0.150)",
        "  worse   new (-0.050, 95% CI -0.090 to -0.010)",
        "Next: replace base by other, after a look at the questions that it loses: ragtrial compare --queries",
        "new against base: -0.050, interval -0.090 to -0.010: worse",
        "other against base: +0.100, interval +0.050 to +0.150: better",
    ]
    assert (suite.findtext("system-out") or "").splitlines() == ["", "Signs were flipped."]


def test_a_setting_that_could_not_be_run_is_an_error() -> None:
    (case,) = suites(everything())["settings"].findall("testcase")
    assert [(child.tag, child.attrib.get("message")) for child in case] == [("error", "no key"), ("system-out", None)]


def test_nothing_found_is_a_document_without_suites() -> None:
    assert suites(findings(comparison=None)) == {}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_read_as_they_are_and_what_xml_cannot_hold_as_python_writes_it(name: str) -> None:
    case = suites(everything(name))["comparison"].findall("testcase")[0].findtext("system-out") or ""
    shown = name.replace("\x07", "\\x07").replace("\x1b", "\\x1b").replace("\ud800", "\\ud800")
    assert f"{shown} against base: -0.050" in case


@settings(max_examples=50)
@given(st.text(st.characters(), max_size=30))
def test_any_name_makes_a_valid_document(name: str) -> None:
    assert suites(everything(name))
