"""Passages are located once: another run with the same documents and passages reads where they are."""

from __future__ import annotations

from pathlib import Path

from experiments import write_experiment
from ragtrial.cache.workspace import Workspace
from ragtrial.dataset.passages import Sought, locate_all
from ragtrial.pipeline.ground import Ground
from ragtrial.progress import Silent

SOUGHT = [
    Sought("Blend"),
    Sought("paper\nbag"),
    Sought("SOUP KEEPS", 5),
    Sought("absent words"),
    Sought("Blend", 0),
    Sought("Blend"),
]


class Stages(Silent):
    """Notes which stages there were."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        self.begun.append(stage)


def ground_of(folder: Path) -> tuple[Ground, Stages]:
    stages = Stages()
    return Ground(Workspace(folder / "workspace"), folder / "documents", stages), stages


def test_located_passages_are_kept_and_read_again_as_they_were(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    first, made = ground_of(tmp_path)
    expected = locate_all(SOUGHT, first.library)
    assert [one.how for one in expected] == ["exact", "spacing", "case", "lost", "lost", "exact"]
    assert first.located(SOUGHT, first.library) == expected
    assert made.begun == ["documents", "passages"]
    second, made = ground_of(tmp_path)
    assert second.located(list(reversed(SOUGHT)), second.library) == expected[::-1]
    assert made.begun == []


def test_other_passages_and_other_documents_are_located_anew(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    ground, made = ground_of(tmp_path)
    ground.located(SOUGHT, ground.library)
    ground.located(SOUGHT[1:], ground.library)  # the same texts
    assert made.begun == ["documents", "passages"]
    ground.located(SOUGHT[2:], ground.library)
    assert made.begun == ["documents", "passages", "passages"]
    (tmp_path / "documents" / "storage.txt").write_text("In a paper\nbag.", encoding="utf-8")
    assert not ground.workspace.repaired
    ground, made = ground_of(tmp_path)
    found = ground.located(SOUGHT, ground.library)
    assert found == locate_all(SOUGHT, ground.library)
    assert found[1].how == "exact"
    assert made.begun == ["documents", "passages"]
    assert not ground.workspace.repaired
