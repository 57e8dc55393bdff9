"""A function beside the config works however it imports its modules, and each of these is a part of its version."""

import sys
from pathlib import Path

import pytest

from corpora import write_files
from expectations import message_of
from ragtrial.cache.fingerprints import file_digest
from ragtrial.components.chunkers.custom import CustomChunker
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.retrievers.custom import CustomRetriever
from ragtrial.components.user_functions import FunctionReference, import_object, version_parts
from ragtrial.errors import ModelNotFoundError

HELPER = {"helper.py": "VALUE = 1\n"}

LAYOUTS: dict[str, tuple[dict[str, str], str, str]] = {
    "a module": ({"mine.py": "VALUE = 1\ndef f(*_): return VALUE\n"}, "mine:f", "mine.py"),
    "a helper": ({"mine.py": "import helper\ndef f(*_): return helper.VALUE\n", **HELPER}, "mine:f", "helper.py"),
    "a helper of a helper": (
        {"mine.py": "from first import VALUE\ndef f(*_): return VALUE\n", "first.py": "from helper import *\n",
         **HELPER}, "mine:f", "helper.py"),
    "an import in the function": (
        {"mine.py": "def f(*_):\n    from helper import VALUE\n    return VALUE\n", **HELPER}, "mine:f", "helper.py"),
    "a relative import": (
        {"pack/__init__.py": "", "pack/mine.py": "from .helper import VALUE\ndef f(*_): return VALUE\n",
         "pack/helper.py": "VALUE = 1\n"}, "pack.mine:f", "pack/helper.py"),
    "a module of the package": (
        {"pack/__init__.py": "", "pack/mine.py": "from . import helper\ndef f(*_): return helper.VALUE\n",
         "pack/helper.py": "VALUE = 1\n"}, "pack.mine:f", "pack/helper.py"),
    "what the package itself has": (
        {"pack/__init__.py": "VALUE = 1\n", "pack/mine.py": "import pack\ndef f(*_): return pack.VALUE\n"},
        "pack.mine:f", "pack/__init__.py"),
    "a folder without __init__": (
        {"loose/mine.py": "from loose.helper import VALUE\ndef f(*_): return VALUE\n",
         "loose/helper.py": "VALUE = 1\n"}, "loose.mine:f", "loose/helper.py"),
    "a partial": (
        {"mine.py": "from functools import partial\nVALUE = 1\ndef _f(text, value): return value\n"
                    "f = partial(_f, value=VALUE)\n"}, "mine:f", "mine.py"),
    "an object": (
        {"mine.py": "VALUE = 1\nclass Model:\n    def __call__(self, text): return VALUE\nf = Model()\n"},
        "mine:f", "mine.py"),
    "a decorated function": (
        {"mine.py": "def bare(function): return lambda text: function(text)\nVALUE = 1\n@bare\n"
                    "def f(text): return VALUE\n"}, "mine:f", "mine.py"),
    "a folder on sys.path": (
        {"mine.py": "import sys\nfrom pathlib import Path\nsys.path.append(str(Path(__file__).parent / 'lib'))\n"
                    "from helper import VALUE\ndef f(*_): return VALUE\n", "lib/helper.py": "VALUE = 1\n"},
        "mine:f", "lib/helper.py"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "helper", raising=False)


@pytest.mark.parametrize(("files", "name", "edited"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_module_that_is_edited_makes_another_version_and_is_what_is_called(
    files: dict[str, str], name: str, edited: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write_files(tmp_path, {**files, "unrelated.py": "VALUE = 5\n"})
    reference = FunctionReference(name, tmp_path)
    assert import_object(reference)("text") == 1
    version = version_parts(reference, None)
    (tmp_path / "unrelated.py").write_text("VALUE = 6\n")
    assert version_parts(reference, None) == version
    (tmp_path / edited).write_text(files[edited].replace("VALUE = 1", "VALUE = 2"))
    assert version_parts(reference, None) != version
    if "sys.path" not in request.node.name:  # such a module has its usual name, and is loaded once by a process
        assert import_object(reference)("text") == 2
    (tmp_path / edited).write_text(files[edited])
    assert version_parts(reference, None) == version
    assert version_parts(reference, "1") == {"version": "1"}


def test_functions_have_the_modules_they_import_of_any_folder_in_their_version(tmp_path: Path) -> None:
    write_files(tmp_path, {"mine.py": "import helper\ndef f(queries, top_k=1): return helper.VALUE\n", **HELPER})
    reference = FunctionReference("mine:f", tmp_path)

    def versions() -> list[object]:
        return [
            CustomChunker(function=reference).hashed_parts(),
            CustomEmbedder(function=reference).hashed_parts(),
            CustomRetriever(function=reference, options={}).hashed_content(file_digest),
        ]

    before = versions()
    (tmp_path / "helper.py").write_text("VALUE = 2\n")
    assert [one == two for one, two in zip(before, versions(), strict=True)] == [False, False, False]
    late = "def f(*_):\n    from helper import VALUE\n    return VALUE\n"
    for number in (1, 2):
        write_files(tmp_path / str(number), {"mine.py": late, "helper.py": f"VALUE = {number}\n"})
    functions = [import_object(FunctionReference("mine:f", tmp_path / str(number))) for number in (1, 2)]
    assert [function() for function in functions] == [1, 2]
    write_files(tmp_path, {"mine.py": "import json, numpy\ndef f(*_): return json.dumps(1) + numpy.__name__\n",
                     "json.py": "raise RuntimeError\n", "numpy.py": "raise RuntimeError\n"})  # fmt: skip
    assert import_object(FunctionReference("mine:f", tmp_path))() == "1numpy"


FAULTS = {
    "no module": ({}, "mine:f", "there is no module 'mine': neither installed nor a file {folder}/mine.py."),
    "no module in a package": ({"pack/__init__.py": ""}, "pack.mine:f",
                               "there is no module 'pack.mine': neither installed nor a file {folder}/pack/mine.py."),
    "a missing package": ({"mine.py": "import absent_package\n"}, "mine:f",
                          "the module 'mine' needs 'absent_package', which is not installed."),
    "a missing part of a package": ({"mine.py": "import json.absent\n"}, "mine:f",
                                    "the module 'mine' needs 'json.absent', which is not installed."),
    "a missing function": ({"mine.py": "def g(): pass\n"}, "mine:f", "mine:f: the module mine has no function 'f'."),
    "an error": ({"mine.py": "1 / 0\n"}, "mine:f",
                 "the module 'mine' cannot be imported: ZeroDivisionError: division by zero"),
    "an exit": ({"mine.py": "import sys; sys.exit(3)\n"}, "mine:f",
                "the module 'mine' cannot be imported: SystemExit: 3"),
    "a syntax error": ({"mine.py": "def f(:\n"}, "mine:f", "the module 'mine' cannot be imported: SyntaxError"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "name", "message"), FAULTS.values(), ids=FAULTS)
def test_a_function_without_a_module_is_refused(files: dict[str, str], name: str, message: str, tmp_path: Path) -> None:
    write_files(tmp_path, files)
    said = message_of(ModelNotFoundError, import_object, FunctionReference(name, tmp_path))
    assert said.startswith(message.format(folder=tmp_path))


@pytest.mark.parametrize("name", ["a-b.c:f", "a.b-c:f", "a b:f", "a:f.g", "a:", ":f", "a", "1a:f"])
def test_a_name_that_no_module_or_function_can_have_is_refused_as_it_is_read(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be written package\.module:function"):
        CustomChunker.model_validate({"kind": "custom", "function": name})
