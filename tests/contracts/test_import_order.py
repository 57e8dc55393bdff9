"""The parts are in one total order: a module imports only parts above its own, and its own part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, DEDENT, ENDMARKER, INDENT, NEWLINE, NL, generate_tokens

SOURCE = Path(__file__).parents[2] / "src" / "ragtrial"

ORDER = [
    "errors", "records", "rankings", "registry", "options", "progress", "cache", "dataset", "report", "runs", "engines",
    "components", "evaluation", "config", "pipeline", "evaluator", "scoring", "comparison", "search", "experiment",
    "labelling", "views", "cli",
]  # fmt: skip
"""Folders and modules, top to bottom. The package itself and its entry point are outside: they open the door."""

DOORS = ["__init__.py", "__main__.py"]
HEAVY = {
    "httpx", "torch", "bm25s", "Stemmer", "chromadb", "faiss", "scipy", "pandas", "polars", "pyarrow",
    "sentence_transformers", "transformers", "huggingface_hub", "matplotlib", "optuna", "rich", "jinja2", "pypdfium2",
    "haystack", "langchain_core", "llama_index", "pymilvus", "qdrant_client", "qdrant_edge", "psycopg",
}  # fmt: skip
MOST_LINES = 600
"""Of a file, with everything."""
MOST_CODE = 38_960
"""Lines of code of the package: without blank lines, comments and docstrings. New features raise it on purpose."""
MOST_FILES = 275

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


def test_parts_are_in_the_order_and_neither_files_nor_rooms_import_each_other() -> None:
    assert sorted(ORDER) == sorted({part_of(name) for name in FILES if name not in DOORS})
    assert circle_of({name: modules_imported(name) for name in FILES}) == []
    # A room is a folder in a part, or a module next to such folders, as it is for the parts themselves.
    rooms = {name: "/".join(name.split("/")[:2]) for name in FILES if name not in DOORS}
    needs: dict[str, set[str]] = {room: set() for room in rooms.values()}
    for name, room in rooms.items():
        needs[room] |= {rooms[other] for other in modules_imported(name) if other in rooms} - {room}
    assert circle_of(needs) == []


def test_a_module_imports_parts_above_its_own_and_nothing_heavy_early() -> None:
    wrong = []
    for name in FILES:
        if name not in DOORS:
            allowed = {*ORDER[: ORDER.index(part_of(name)) + 1], "__version__"}
            wrong += [
                f"{name}:{line}: {module} is below {part_of(name)}"
                for line, module in imported(tree_of(name))
                if module.partition(".")[0] == "ragtrial" and module.split(".")[1] not in allowed
            ]
    assert wrong == []
    assert not [
        f"{name}:{line}: {module}: import it in the function that uses it"
        for name in FILES
        for node in at_import(tree_of(name))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line, module in imported(node)
        if module.partition(".")[0] in HEAVY
    ]


def test_parts_that_come_later_are_called_for_by_name_in_two_places_alone() -> None:
    """``late`` is the way around the order: for a comparison that is printed, and for the progress of a run."""
    late = {(name, ast.unparse(node.args[0])) for name in FILES for node in ast.walk(tree_of(name))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "late"}  # fmt: skip
    assert late == {
        ("pipeline/run.py", "'cli.terminal:python_listener'"),
        ("comparison/comparison_parts.py", "'views.comparison_tables:comparison_text'"),
    }
    own = {name for name in FILES for node in ast.walk(tree_of(name))
           if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
           and "ragtrial" in ast.unparse(node.args[0])}  # fmt: skip
    assert own == {"cli/group.py", "registry.py"}


def modules_imported(name: str) -> set[str]:
    """The files of the package that ``name`` imports."""
    wanted: set[str] = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ImportFrom) and node.module:
            wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
    paths = {module.replace(".", "/").removeprefix("ragtrial/") for module in wanted if module.startswith("ragtrial.")}
    return {file for path in paths for file in (f"{path}.py", f"{path}/__init__.py") if file in FILES} - {name}


def circle_of(needs: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def lines_of_code(code: str) -> int:
    """The lines that hold code: no blank lines, comments and bare strings."""
    bare: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            bare.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in generate_tokens(StringIO(code).readline):
        if token.type not in {COMMENT, NL, NEWLINE, INDENT, DEDENT, ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - bare)


def test_the_package_its_files_and_their_first_lines_keep_their_limits() -> None:
    assert sum(lines_of_code((SOURCE / name).read_text(encoding="utf-8")) for name in FILES) <= MOST_CODE
    assert len(FILES) <= MOST_FILES
    lengths = {name: len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in FILES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
    assert [name for name in FILES if not ast.get_docstring(tree_of(name))] == []


def test_only_the_command_line_prints_and_exits() -> None:
    forbidden = {"print", "click.echo", "sys.stdout.write", "sys.stderr.write", "exit", "quit", "os._exit", "sys.exit"}
    wrong = [
        f"{name}:{node.lineno}: {ast.unparse(node.func)}"
        for name in FILES
        if part_of(name) != "cli"
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]
    assert {where.split(":")[0] + where.split(":")[2] for where in wrong} <= {"__main__.py sys.exit"}, wrong


def test_the_readers_of_imports_see_every_form_and_pass_over_functions() -> None:
    code = "import ragtrial.pipeline.plan\nfrom ragtrial import cli\ndef f():\n    from ragtrial.views.table import x\n"
    modules = [module for _, module in imported(ast.parse(code))]
    assert modules == ["ragtrial.pipeline.plan", "ragtrial.cli", "ragtrial.views.table"]
    code = (
        "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\n"
        "class K:\n    import d\n    def m(self):\n        import e\n"
        "try:\n    import f\nexcept ImportError:\n    import g\n"
    )
    nodes = at_import(ast.parse(code))
    assert {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} == set("acdfg")
