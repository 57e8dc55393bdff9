"""Functions of the user's, named `package.module:function` in a config."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, NoReturn, cast

from pydantic import BaseModel, BeforeValidator, PlainSerializer, WithJsonSchema

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.errors import ModelNotFoundError, did_you_mean
from ragtrial.options import LocatedText


@dataclass(frozen=True)
class FunctionReference:
    """A function by name, ``package.module:function``, and the folder where a file of that module may stand."""

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


def import_function(reference: FunctionReference) -> Callable[..., Any]:
    """The function that is meant: an installed module's, or a file's beside the config.

    Raises ModelNotFoundError if there is no such module or function, or if the module raises on import.
    """
    return cast("Callable[..., Any]", import_object(reference, callable))


def import_object(reference: FunctionReference, is_meant: Callable[[Any], bool]) -> Any:
    """What is named, of a module as ``import_function`` finds it, if ``is_meant`` says so of it.

    Raises ModelNotFoundError as ``import_function`` does.
    """
    module_name, _, name = reference.name.partition(":")
    module = _module(module_name, reference.folder)
    found = getattr(module, name, None)
    if not is_meant(found):
        near = did_you_mean(name, [key for key, value in vars(module).items() if is_meant(value)])
        raise ModelNotFoundError(f"{reference}: the module {module_name} has no function {name!r}.{near}")
    return found


def function_sources(reference: FunctionReference, is_meant: Callable[[Any], bool] = callable) -> list[Path]:
    """The files that a function is written in: that of the module that is named, and the function's own.

    What is named may be another object, as of ``import_object``.
    """
    function = import_object(reference, is_meant)
    module = _module(reference.name.partition(":")[0], reference.folder)
    try:
        own = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:  # a callable object, or a builtin
        own = None
    named = getattr(module, "__file__", None)
    return sorted({Path(file) for file in (own, named) if file and Path(file).is_file()})


def version_parts(reference: FunctionReference, version: str | None, digest: Digest = file_digest) -> dict[str, Any]:
    """What tells versions of a function apart: the ``version`` that is given, else the hashes of its files."""
    sources = function_sources(reference)
    if version is not None:
        return {"version": version}
    if not sources:
        raise ModelNotFoundError(f"{reference} has no source file to tell its versions apart; give `version:`.")
    return {"files": [digest(source) for source in sources]}


def _module(name: str, folder: Path) -> Any:
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    try:
        return _from_file(name, path) if path.is_file() else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ModelNotFoundError(f"there is no module {name!r}: neither installed nor a file {path}.") from None
        raise ModelNotFoundError(f"the module {name!r} needs {error.name!r}, which is not installed.") from error
    except (Exception, SystemExit) as error:
        raise ModelNotFoundError(f"the module {name!r} cannot be imported: {type(error).__name__}: {error}") from error


_LOADING = RLock()


class _SourceLoader(SourceFileLoader):
    """Always reads the source: cached bytecode is distinguished by the second, and an edit may be quicker than that."""

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("cached bytecode is not used")


def _from_file(name: str, path: Path) -> Any:
    """The module in ``path``, loaded from its place: a folder on sys.path would let its files shadow installed ones."""
    # By content: a file that was edited meanwhile is another module, as it is to the embedding cache.
    key = f"ragtrial_user_{name.replace('.', '_')}_{fingerprint([str(path), file_digest(path)])}"
    with _LOADING:  # or another thread would get a half of it
        return sys.modules[key] if key in sys.modules else _loaded(key, path)


def _loaded(key: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(key, path, loader=_SourceLoader(key, str(path)))
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[key]  # or the next to ask would get a half of it
        raise
    return module
