"""The parts stand in one total order: a module imports only parts above its own, and its own part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ragtrial"

ORDER = [
    "errors", "records", "rankings", "registry", "options", "progress", "cache", "dataset", "report", "runs",
    "components", "evaluation", "config", "pipeline", "evaluator", "experiment", "scoring", "comparison", "labelling",
    "views", "integrations", "cli",
]  # fmt: skip
"""Folders and modules, top to bottom. The package itself and its entry point stand outside: they open the door."""

DOORS = ["__init__.py", "__main__.py"]
HEAVY = {
    "torch",
    "bm25s",
    "Stemmer",
    "chromadb",
    "scipy",
    "pandas",
    "polars",
    "pyarrow",
    "sentence_transformers",
    "transformers",
    "huggingface_hub",
    "matplotlib",
    "rich",
    "jinja2",
    "pypdfium2",
    "haystack",
    "langchain_core",
    "llama_index",
}
ADAPTED = {"integrations/haystack.py": {"haystack"}}
"""A module that makes classes for another framework needs it when it is imported; nothing else imports the module."""
MOST_LINES = 400

FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"))


def part_of(name: str) -> str:
    """``dataset`` for dataset/labels.py, ``plan`` for plan.py."""
    return name.partition("/")[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of every module that is imported, in functions and under TYPE_CHECKING, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write the whole name"
            module = node.module or ""
            if module == "ragtrial":
                yield from ((node.lineno, f"ragtrial.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: not those in functions, not those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from at_import(other)
            continue
        yield child
        yield from at_import(child)


@pytest.mark.parametrize("name", FILES)
def test_nothing_imports_a_module_for_another_framework(name: str) -> None:
    modules = {module for _, module in imported(tree_of(name))}
    assert not [module for module in modules if module.startswith("ragtrial.integrations.")]


def test_the_order_names_every_part_that_there_is_once() -> None:
    assert sorted(ORDER) == sorted({part_of(name) for name in FILES if name not in DOORS})


@pytest.mark.parametrize("name", [name for name in FILES if name not in DOORS])
def test_a_module_imports_only_parts_above_its_own(name: str) -> None:
    own = part_of(name)
    allowed = {*ORDER[: ORDER.index(own)], own, "__version__"}
    wrong = [
        f"line {line}: {module}"
        for line, module in imported(tree_of(name))
        if module.partition(".")[0] == "ragtrial" and module.split(".")[1] not in allowed
    ]
    assert wrong == [], f"{name} imports what stands below {own}"


@pytest.mark.parametrize("name", FILES)
def test_a_module_imports_no_heavy_package_before_it_is_needed(name: str) -> None:
    nodes = [node for node in at_import(tree_of(name)) if isinstance(node, ast.Import | ast.ImportFrom)]
    packages = {module.partition(".")[0] for node in nodes for _, module in imported(node)}
    assert packages.isdisjoint(HEAVY - ADAPTED.get(name, set())), f"{name}: import it in the function that uses it"


@pytest.mark.parametrize("name", [name for name in FILES if part_of(name) != "cli"])
def test_only_the_command_line_prints_and_exits(name: str) -> None:
    calls = [node.func for node in ast.walk(tree_of(name)) if isinstance(node, ast.Call)]
    found = {ast.unparse(function) for function in calls}
    forbidden = {"print", "click.echo", "sys.stdout.write", "sys.stderr.write", "exit", "quit", "os._exit"}
    assert found.isdisjoint(forbidden if name == "__main__.py" else forbidden | {"sys.exit"})


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_longer_than_four_hundred_lines(name: str) -> None:
    assert len((SOURCE / name).read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", FILES)
def test_every_module_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(tree_of(name))


def test_the_reader_of_imports_sees_imports_of_every_form() -> None:
    code = "import ragtrial.pipeline.plan\nfrom ragtrial import cli\ndef f():\n    from ragtrial.views.table import x\n"
    assert [module for _, module in imported(ast.parse(code))] == [
        "ragtrial.pipeline.plan",
        "ragtrial.cli",
        "ragtrial.views.table",
    ]


def test_the_reader_of_what_runs_at_import_passes_over_functions_and_types() -> None:
    code = (
        "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\n"
        "class K:\n    import d\n    def m(self):\n        import e\n"
        "try:\n    import f\nexcept ImportError:\n    import g\n"
    )
    nodes = at_import(ast.parse(code))
    assert {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} == set("acdfg")
