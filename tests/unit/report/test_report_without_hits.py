"""Reports that are read without their hits: the same in all else, whatever is in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contests import HIT, report_of
from ragtrial import load_report
from ragtrial.comparison.contest import contest_of
from ragtrial.errors import ReportError
from ragtrial.report.model import Report, write_folder
from ragtrial.report.schema import HitPart

TEXTS = st.text(st.sampled_from('"\\[]{}:, \nhits\u2028é🙂'), max_size=12)


def with_hits(report: Report, hits: list[HitPart]) -> Report:
    settings = [
        setting.model_copy(update={"queries": [query.model_copy(update={"hits": hits}) for query in setting.queries]})
        for setting in report.settings
    ]
    return report.model_copy(update={"settings": settings})


def saved(folder: Path, content: dict[str, Any], indent: int | None = 1) -> Path:
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
    return folder


REPORT = report_of({"a": [0.5, 0.25], "b": [1.0, 0.75]})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.builds(lambda doc, chunk: replace(HIT, doc=doc, chunk=chunk), TEXTS, TEXTS)), TEXTS)
def test_a_report_without_hits_is_the_report_but_for_its_hits(
    tmp_path_factory: pytest.TempPathFactory, hits: list[HitPart], text: str
) -> None:
    asked = [query.model_copy(update={"text": text, "id": query.id}) for query in REPORT.queries]
    config = {"note": text, "hits": [text, 1], "more": {"hits": ["]", "["]}}
    report = with_hits(REPORT, hits).model_copy(update={"queries": asked, "config": config, "prompt": text})
    folder = write_folder(report, tmp_path_factory.mktemp("lean") / "report", {}, [], "").folder
    seals = {"files", "checksum"}
    assert load_report(folder).model_dump(exclude=seals) == report.model_dump(exclude=seals)
    assert load_report(folder, hits=False).model_dump(exclude=seals) == with_hits(report, []).model_dump(exclude=seals)


@pytest.mark.parametrize("indent", [None, 4])
def test_a_report_that_was_indented_otherwise_keeps_its_hits(indent: int | None, tmp_path: Path) -> None:
    folder = saved(tmp_path / "report", REPORT.model_dump(mode="json"), indent)
    assert load_report(folder, hits=False).model_dump() == REPORT.model_dump()


def test_hits_in_another_order_of_fields_are_read_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(REPORT.model_dump(mode="json"), sort_keys=True))
    assert load_report(folder, hits=False).settings[0].queries[0].evaluations == {"ndcg@3": 0.5}


def test_a_report_of_before_some_fields_were_there_is_read_and_compared(tmp_path: Path) -> None:
    content = REPORT.model_dump(mode="json")
    for name in ("unit", "span_coverage"):
        del content[name]
    for query in content["queries"]:
        del query["ordered"]
        for label in query["relevant_docs"]:
            del label["spans"]
    for setting in content["settings"]:
        for name in ("facts", "costs", "context", "budget"):
            del setting[name]
        for found in setting["queries"]:
            del found["skipped"], found["passages"]
            for hit in found["hits"]:
                del hit["tokens"]
    folder = saved(tmp_path / "old", content)
    assert load_report(folder, hits=False).model_dump() == with_hits(REPORT, []).model_dump()
    assert contest_of([folder, REPORT]).names == ("old:a", "old:b", "report-2:a", "report-2:b")


def text_of(report: Report) -> str:
    return report.model_dump_json(indent=1)


@pytest.mark.parametrize(
    "spoilt",
    [
        "",
        "{",
        text_of(REPORT)[: text_of(REPORT).index('"hits"') + 60],
        text_of(REPORT)[: text_of(REPORT).rindex('"doc": "a') + 9],
        text_of(REPORT)[: text_of(REPORT).rindex("]")],
        text_of(REPORT).replace('"schema_version": 1', '"schema_version": 2'),
        text_of(REPORT).replace('"run_id"', '"run"'),
        text_of(REPORT).replace('"ndcg@3": 0.25', '"ndcg@3": "high"'),
        "[]",
    ],
)
def test_what_is_wrong_with_a_report_is_told_as_for_all_of_it(spoilt: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(spoilt)
    with pytest.raises(ReportError) as whole:
        load_report(tmp_path)
    with pytest.raises(ReportError) as lean:
        load_report(tmp_path, hits=False)
    assert str(lean.value) == str(whole.value)
    assert str(lean.value).startswith(f"{path}: ")
    with pytest.raises(ReportError) as compared:
        contest_of([tmp_path])
    assert str(compared.value) == str(whole.value)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(ReportError, match=r"report\.json: is damaged, or of another version: "):
        load_report(tmp_path, hits=False)
