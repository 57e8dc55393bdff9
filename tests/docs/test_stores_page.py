"""The page on stores: its config runs and shows what the page says, and its tables name every kind."""

import re
from pathlib import Path

import pytest

from ragtrial import load_config, run_experiment
from ragtrial.config.settings import settings_of

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text(encoding="utf-8")


def printed_settings(place: int) -> list[str]:
    """The settings in one of the tables that the page shows, in alphabetical order."""
    tables = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return sorted(re.findall(r"^(\S+) +[01]\.\d{4} ", tables[place], re.MULTILINE))


@pytest.fixture(autouse=True)
def _workspace(monkeypatch: pytest.MonkeyPatch, shared_workspace: Path) -> None:
    monkeypatch.setenv("RAGTRIAL_WORKSPACE", str(shared_workspace))


def test_its_configs_show_costs_and_have_the_settings_of_its_table(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_experiment(load_config(root / "configs" / "stores.yaml", [f"output.directory={tmp_path}"]))
    audits = {one.name: one.audit for one in report.settings if one.audit}
    overlaps = [audits[f"faiss-ef_search{ef}"].overlap or 0 for ef in (1, 8, 64)]
    assert overlaps == sorted(overlaps)
    assert overlaps[0] < 0.7 < 0.95 < overlaps[-1]
    assert audits["qdrant"].used is False
    assert audits["chroma"].used is True
    assert printed_settings(0) == sorted(audits)
    assert "index-not-used" in {one.code for one in report.warnings}
    monkeypatch.setenv("BEIR", "scifact")
    settings, _ = settings_of(load_config(root / "configs" / "stores-beir.yaml"))
    assert printed_settings(1) == sorted({one.name for one in settings} - {"exact"})
