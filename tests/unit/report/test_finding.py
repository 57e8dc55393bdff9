"""Where a report is found, and what of the environment is in none."""

from pathlib import Path

import pytest

from ragtrial.errors import without_secrets
from ragtrial.report.find import find_report


def test_latest_is_read_from_its_file_wherever_that_is(tmp_path: Path) -> None:
    """The file decides, also where the folder is not below the results, and where a newer run is beside it."""
    for run in ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"):
        (tmp_path / "moved" / run).mkdir(parents=True)
        (tmp_path / "moved" / run / "report.json").write_text("{}")
    (tmp_path / "moved" / "latest").write_text("20260101T000000Z-aaaaaa\n")
    found = find_report(str(tmp_path / "moved" / "latest"), tmp_path / "results")
    assert found == tmp_path / "moved" / "20260101T000000Z-aaaaaa"


@pytest.mark.parametrize(("value", "hidden"), [("abcdef", True), ("abcde", False)])
def test_secrets_of_six_characters_on_are_put_back(monkeypatch: pytest.MonkeyPatch, value: str, hidden: bool) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", value)
    assert without_secrets(f"said {value}!") == ("said ${SEARCH_TOKEN}!" if hidden else f"said {value}!")
