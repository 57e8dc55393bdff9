"""Functions of the user's, named `package.module:function` in a config."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import machinery
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, BeforeValidator, PlainSerializer, WithJsonSchema

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.errors import ModelNotFoundError, did_you_mean
from ragtrial.options import LocatedText


@dataclass(frozen=True)
class FunctionReference:
    """A function by name, ``package.module:function``, and the folder that may contain a file of that module."""

    name: str
    folder: Path

    def __str__(self) -> str:
        return self.name


def folders_of(options: BaseModel) -> list[str]:
    """Where the functions are looked for that ``options`` name: one name may be in several folders (``extends``)."""
    return [str(value.folder) for _, value in options if isinstance(value, FunctionReference)]


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    module, colon, function = value.partition(":")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError(f"{value!r} must be written package.module:function.")
    return FunctionReference(str(value), value.folder if isinstance(value, LocatedText) else Path.cwd())


FunctionName = Annotated[
    FunctionReference,
    BeforeValidator(_parsed),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[\w.]+:\w+$"}),
]


def import_object(reference: FunctionReference, is_meant: Callable[[Any], bool] = callable) -> Any:
    """The named function, or other object that ``is_meant``, of an installed module or of a file next to the config.

    Raises ModelNotFoundError if there is no such module or function, or if the module raises on import.
    """
    module_name, _, name = reference.name.partition(":")
    module = _module(module_name, reference.folder)
    found = getattr(module, name, None)
    if not is_meant(found):
        near = did_you_mean(name, [key for key, value in vars(module).items() if is_meant(value)])
        raise ModelNotFoundError(f"{reference}: the module {module_name} has no function {name!r}.{near}")
    return found


def version_parts(
    reference: FunctionReference,
    version: str | None,
    digest: Digest = file_digest,
    is_meant: Callable[[Any], bool] = callable,
) -> dict[str, Any]:
    """The parts of a function's version: the given ``version``, else the hashes of the files that it depends on.

    These are its module, the modules that define it, and their imports, also in functions. Imports count below the
    folder of the config, or, for a module of another folder that is no installed package, below that folder.
    """
    function = import_object(reference, is_meant)
    if version is not None:
        return {"version": version}
    try:
        own = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:  # a callable object, or a builtin
        own = None
    named = getattr(_module(reference.name.partition(":")[0], reference.folder), "__file__", None)
    files = {Path(file).resolve() for file in (own, named) if file and Path(file).is_file()}
    sources = {source for file in files for source in imported_files(file, _root_of(file, reference.folder))}
    if not sources:
        raise ModelNotFoundError(f"{reference} has no source file to tell its versions apart; give `version:`.")
    return {"files": [digest(source) for source in sorted(sources)]}


def imported_files(file: Path, root: Path | None) -> set[Path]:
    """``file``, and the files below ``root`` of all modules that it imports, directly or not, anywhere in the code."""
    files, left = {file}, [file]
    while left and root is not None:
        new = set(_imported_by(left.pop(), root)) - files
        files |= new
        left += new
    return files


def _imported_by(file: Path, root: Path) -> Iterator[Path]:
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):  # it cannot be imported either
        return
    for node in nodes:
        for name in _names_imported(node):
            dots = len(name) - len(name.lstrip("."))
            beside = [root, *(path for entry in sys.path if root in (path := Path(entry).resolve()).parents)]
            for folder in [file.parents[dots - 1]] if 0 < dots <= len(file.parents) else beside:
                if folder == root or root in folder.parents:
                    yield from _files_of(folder, name.lstrip(".").split("."))


def _names_imported(node: ast.AST) -> Iterator[str]:
    """The modules that a node of a syntax tree may import, with a dot for each level of a relative import."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        dots, module = "." * node.level, f"{node.module}." if node.module else ""
        yield from (f"{dots}{module}{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            yield node.args[0].value


def _files_of(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """The files of a module below ``folder``, and of the packages that it is in, as far as there are such."""
    for path in (folder / "__init__.py", *(folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))):
        candidates = (path, path.with_suffix(".py"), path / "__init__.py")
        yield from (candidate for candidate in candidates if candidate.suffix == ".py" and candidate.is_file())


def _root_of(file: Path, folder: Path) -> Path | None:
    """The folder below which modules are the user's own; None for an installed package."""
    if folder.resolve() in file.parents:
        return folder.resolve()
    top = file.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    installed = [Path(path).resolve() for path in sysconfig.get_paths().values()]
    return None if any(path == top or path in top.parents for path in installed) else top


def _module(name: str, folder: Path) -> Any:
    path = folder.joinpath(*name.split("."))
    try:
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return _beside(folder.resolve()).load(name)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        missing = missing.partition(".")[2] if missing.startswith(_PREFIX) else missing
        if not path.with_suffix(".py").is_file() and missing and f"{name}.".startswith(f"{missing}."):
            message = f"there is no module {name!r}: neither installed nor a file {path.with_suffix('.py')}."
            raise ModelNotFoundError(message) from None
        raise ModelNotFoundError(f"the module {name!r} needs {missing!r}, which is not installed.") from error
    except (Exception, SystemExit) as error:
        raise ModelNotFoundError(f"the module {name!r} cannot be imported: {type(error).__name__}: {error}") from error


_LOADING = RLock()
_PREFIX = "ragtrial_user_"


class _SourceLoader(machinery.SourceFileLoader):
    """Always reads the source: cached bytecode is distinguished by the second, and an edit may be quicker than that.

    Import statements of the module, also in its functions, find modules in the folder of the config.
    """

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("cached bytecode is not used")

    def exec_module(self, module: ModuleType) -> None:
        beside = _namespaces[module.__name__.partition(".")[0]]
        beside.digests[Path(self.path)] = file_digest(Path(self.path))
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": beside.import_}
        super().exec_module(module)


class _Beside:
    """The modules in a folder, under separate names: modules of two folders may have the same name.

    If the folder were on sys.path, its files would shadow installed modules. ``digests`` are the hashes of the loaded
    files.
    """

    def __init__(self, folder: Path, generation: int) -> None:
        self.folder = folder
        self.name = f"{_PREFIX}{fingerprint([str(folder), generation])}"
        self.digests: dict[Path, str] = {}
        package = ModuleType(self.name)
        package.__path__ = [str(folder)]
        sys.modules[self.name] = package

    @property
    def is_current(self) -> bool:
        """True if no file was edited since it was loaded."""
        return all(path.is_file() and file_digest(path) == digest for path, digest in self.digests.items())

    def load(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")

    def import_(
        self,
        name: str,
        variables: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        """The module that an import statement of such a module gets; see ``__import__``."""
        top = name.partition(".")[0]
        if level or not self._has(top):
            return __import__(name, variables, local, names, level)
        module = __import__(f"{self.name}.{name}", variables, local, names, 0)
        return module if names else sys.modules[f"{self.name}.{top}"]

    def _has(self, top: str) -> bool:
        """True if the module is in the folder, and no installed module has its name."""
        if top in sys.builtin_module_names or not any((self.folder / one).exists() for one in (top, f"{top}.py")):
            return False
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return True
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        return all(self.folder in Path(place).resolve().parents for place in places if place)


_namespaces: dict[str, _Beside] = {}
_by_folder: dict[Path, list[_Beside]] = {}


class _Finder:
    """Finds the modules of ``_Beside``, which have unique names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> machinery.ModuleSpec | None:
        if not name.startswith(_PREFIX) or not path:
            return None
        sources = _SourceLoader, machinery.SOURCE_SUFFIXES
        extensions = machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES
        specs = (machinery.FileFinder(folder, sources, extensions).find_spec(name) for folder in path)
        return next(filter(None, specs), None)


def _beside(folder: Path) -> _Beside:
    """The modules in ``folder`` as they are now: after an edit all of them are loaded again."""
    with _LOADING:  # or another thread would get a half of it
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        known = _by_folder.setdefault(folder, [])
        if not known or not known[-1].is_current:
            known.append(_Beside(folder, len(known)))
            _namespaces[known[-1].name] = known[-1]
        return known[-1]
