"""``ragtrial chunks``: what a chunker does, for people and for programs; nothing is embedded."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from small_experiment import CONFIG, Capture, ragtrial, small_experiment

DOCUMENTS: Mapping[str, str | bytes] = {
    "hub.md": "# Hub\n\n## Lights\n\nBlue is good. Red is bad.\n\nGreen is neither.\n",
    "parcels.txt": "Parcels take two days.\n",
}
LABELS = {"queries": [{"id": "q1", "text": "red light", "relevant_docs": [{"doc": "hub.md"}]}]}
CUT = CONFIG.replace("{kind: document}", "{kind: recursive, size: 32, overlap: 0, unit: characters}")
TWO = CUT.replace("latency:", "  whole: {kind: dense, chunker: {kind: document}}\nlatency:")


def config(folder: Path, text: str = CUT) -> Path:
    small_experiment(folder, config=text, documents=DOCUMENTS, labels=LABELS)
    return Path("experiment.yaml")


def test_the_listing_has_sizes_and_chunks(tmp_path: Path, capsys: Capture, golden: Callable[[str, str], None]) -> None:
    context = ("--set", "context.headings=true", "--set", "context.sentences=1")
    made = ragtrial(capsys, "chunks", config(tmp_path), "-q", *context)
    assert (made.code, made.err) == (0, "")
    golden("chunks", re.sub(r"(?<=])  [0-9a-f]+$", "  ID", made.out, flags=re.MULTILINE))


def test_nothing_is_embedded_and_labels_are_not_needed(tmp_path: Path, own_cache: Path, capsys: Capture) -> None:
    config(tmp_path)
    Path("prompt_queries.json").unlink()
    Path("hashing.py").write_text("def embed(texts):\n    raise RuntimeError\n")
    assert ragtrial(capsys, "chunks", "experiment.yaml").code == 0
    assert not list(own_cache.glob("embeddings/*"))
    assert not list(own_cache.glob("vectors/*"))


def test_json_is_one_document_with_every_chunk(tmp_path: Path, capsys: Capture) -> None:
    made = ragtrial(capsys, "chunks", config(tmp_path), "--json", "--set", "context.headings=true")
    (setting,) = made.json.pop("settings")
    assert made.json["exit_code"] == 0
    assert made.json["warnings"] == []
    found = setting.pop("rows")
    assert setting == {
        "name": "dense", "chunks": 4, "documents": 2,
        "characters": {"min": 16, "median": 17, "p95": 25, "max": 25}, "tokens": None,
    }  # fmt: skip
    assert {key: value for key, value in found[2].items() if key != "chunk"} == {
        "setting": "dense", "doc": "hub.md", "title": "Hub", "start": 45, "end": 62, "text": "Green is neither.",
        "indexed": "Hub Lights Green is neither.", "tokens": None,
    }  # fmt: skip


def test_tokens_are_those_of_what_is_indexed(tmp_path: Path, tiny_model: Path, capsys: Capture) -> None:
    from ragtrial.components.tokenizers import Tokenizer

    embedder = f"{{kind: sentence-transformer, model: {tiny_model}}}"
    text = CUT.replace('{kind: custom, function: "hashing:embed"}', embedder)
    made = ragtrial(capsys, "chunks", config(tmp_path, text), "--json", "--set", "context.sentences=1")
    (setting,) = made.json["settings"]
    counts = Tokenizer(tiny_model / "tokenizer.json").counts([row["indexed"] for row in setting["rows"]])
    assert [row["tokens"] for row in setting["rows"]] == counts.tolist()
    assert (setting["tokens"]["min"], setting["tokens"]["max"]) == (min(counts), max(counts))


def test_chunks_of_one_document_and_so_many(tmp_path: Path, capsys: Capture) -> None:
    path = config(tmp_path)
    (setting,) = ragtrial(capsys, "chunks", path, "--json", "--doc", "parcels.txt").json["settings"]
    assert (setting["chunks"], setting["documents"]) == (1, 1)
    assert [row["text"] for row in setting["rows"]] == ["Parcels take two days."]
    (setting,) = ragtrial(capsys, "chunks", path, "--json", "-n", "1").json["settings"]
    assert (setting["chunks"], len(setting["rows"])) == (4, 1)
    assert "hub.md" not in ragtrial(capsys, "chunks", path, "-n", "0").out


def test_lines_are_written_to_a_file_each_chunk_once(tmp_path: Path, capsys: Capture) -> None:
    path = config(tmp_path, TWO)
    made = ragtrial(capsys, "chunks", path, "-o", "chunks.jsonl")
    assert (made.code, made.out) == (0, "")
    assert made.err.splitlines()[-1] == "chunks.jsonl: 5 chunks"
    assert "would both go to standard output" in ragtrial(capsys, "chunks", path, "-o", "-", "--json").err
    found = [*map(json.loads, Path("chunks.jsonl").read_text(encoding="utf-8").splitlines())]
    assert [(row["setting"], row["doc"]) for row in found] == [
        ("dense", "hub.md"), ("dense", "hub.md"), ("dense", "hub.md"), ("dense", "parcels.txt"), ("whole", "hub.md"),
    ]  # fmt: skip
    assert len({row["chunk"] for row in found}) == 5
    made = ragtrial(capsys, "chunks", path, "--setting", "whole", "-o", "-", "-q")
    assert [json.loads(line)["setting"] for line in made.out.splitlines()] == ["whole", "whole"]
    answer = ragtrial(capsys, "chunks", path, "-o", "chunks.jsonl", "--json").json
    assert (answer["file"], answer["rows"], "rows" in answer["settings"][0]) == ("chunks.jsonl", 5, False)
