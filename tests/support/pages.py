"""The code on a page of the documentation, run from top to bottom."""

import io
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import yaml

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(frozen=True)
class Block:
    """Code on a page, and what the page shows below it as its output: nothing where it shows nothing."""

    language: str
    code: str
    shown: str


def blocks(page: Path, languages: str = "python") -> Iterator[Block]:
    """The blocks of code in one of the ``languages``, which stand with | between."""
    pattern = rf"^```({languages})\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    for match in re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        yield Block(*match)


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of a page in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def replace_sections(config: Path, shown: str, **changes: object) -> None:
    """Replace sections of a config by those that a page shows, and by ``changes`` to them."""
    sections = {**yaml.safe_load(config.read_text(encoding="utf-8")), **yaml.safe_load(shown), **changes}
    config.write_text(yaml.safe_dump(sections, sort_keys=False), encoding="utf-8")


def fastest_precision() -> str:
    """Bfloat16 on processors that have it: a third of the time, and vectors with cosines of 0.9999."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    return "bfloat16" if re.search("avx512_bf16|amx_bf16", flags) else "float32"


def copy_sample(root: Path, folder: Path) -> Path:
    """A copy of the clone's configs and sample data in ``folder``."""
    for name in ("configs", "data"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns(".ragtrial", "__pycache__"))
    shutil.copy(root / "prompt_queries.json", folder)
    return folder


def commands(page: Path) -> list[list[str]]:
    """The words of each line of a page that is a command of ragtrial."""
    return [
        shlex.split(line) for line in re.findall(r"^ragtrial (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def assert_prints_what_it_shows(page: Path) -> None:
    """Runs all blocks in one namespace, as one would type them."""
    names: dict[str, object] = {}
    ran = 0
    for block in blocks(page):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block.code, str(page), "exec"), names)
        assert _RUN_ID.sub("ID", printed.getvalue()) == _RUN_ID.sub("ID", block.shown), (
            f"{block.code}\nprints:\n{printed.getvalue()}"
        )
        ran += 1
    assert ran, f"{page.name} has no code"
