"""Where a report is found."""

from pathlib import Path

from ragtrial.report.find import find_report


def test_latest_is_read_from_its_file_wherever_that_is(tmp_path: Path) -> None:
    """The file decides, also where the folder is not below the results, and where a newer run is beside it."""
    for run in ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"):
        (tmp_path / "moved" / run).mkdir(parents=True)
        (tmp_path / "moved" / run / "report.json").write_text("{}")
    (tmp_path / "moved" / "latest").write_text("20260101T000000Z-aaaaaa\n")
    found = find_report(str(tmp_path / "moved" / "latest"), tmp_path / "results")
    assert found == tmp_path / "moved" / "20260101T000000Z-aaaaaa"
