"""What documents and queries hold does not steer the terminal that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from small_experiment import LABELS, ragtrial, small_experiment

STEERING = "\x1b[31mred\x07 \u202edliub \x9b2J\u2066 over"
FOUND = "\ufffd[31mred\ufffd \ufffddliub \ufffd2J\ufffd over"
BAD = set("\x1b\x07\u202e\x9b\u2066\r")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("steering")
    labels = {**LABELS, "queries": [{"id": "q\x1b1", "text": f"bread {STEERING}",
                                     "relevant_docs": [{"doc": "a.txt"}]}]}  # fmt: skip
    documents = {"a.txt": f"bread and {STEERING}\n", "b.txt": "soup\n"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield small_experiment(folder, labels=labels, documents=documents)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "latest", "--query", "q\x1b1"),
        ("show", "latest", "--query", "q\x1b1", "--prompt"),
        ("show", "latest"),
        ("search", "experiment.yaml", "bread"),
        ("search", "experiment.yaml", "bread", "--grade", "1=1", "--id", "new"),
    ],
)
def test_steering_characters_are_shown_replaced(
    config: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(config.parent)
    if not Path("results").exists():
        assert ragtrial(capsys, "run", config, "-q").code == 0
    shown = ragtrial(capsys, *arguments, "-q")
    assert shown.code == 0, shown.err
    assert FOUND in " ".join(shown.out.split())
    assert not BAD & set(shown.out)
