"""Options in files, with descriptions, and sentences for the errors of pydantic."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    SecretStr,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ragtrial.errors import Fault, InputError, did_you_mean, listed, withhold
from ragtrial.registry import AnyOf, installed_version

_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}

_PATTERNS = {
    "^[A-Za-z0-9][A-Za-z0-9_-]*$": "made of letters, digits, - and _, a letter or digit first",
    "^[0-9a-f]{16}$": "16 hexadecimal digits, letters small",
}

M = TypeVar("M", bound=BaseModel)
FieldPath = tuple[str | int, ...]

_EXPECTED = {
    "string_type": "a text (put it in quotes)",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


def described(model: type[Any], core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """The schema of a model or dataclass, its fields described by the docstrings below them."""
    schema = handler(core_schema)
    properties = handler.resolve_ref_schema(schema).get("properties", {})
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    for name, text in field_docstrings(model).items():
        alias = fields[name].alias if name in fields else None
        properties.get(alias or name, {}).setdefault("description", text)
    return schema


class Described(BaseModel):
    """A model whose fields are described by the docstrings below them: read for a schema, and not at import."""

    __get_pydantic_json_schema__ = classmethod(described)


class Options(Described):
    """Unknown keys are refused, types are not guessed, values do not change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    named_by: ClassVar[tuple[str, ...]] = ()
    """The options that ``summary`` always shows."""

    unhashed: ClassVar[frozenset[str]] = frozenset()
    """The options that change no result; secrets must be among them."""

    packages: ClassVar[Mapping[str, str]] = {}
    """The packages that it works with, as pip names them, each with the extra of ragtrial that brings it (or empty)."""

    hashed_packages: ClassVar[tuple[str, ...]] = ()
    """The names of ``packages``, perhaps as patterns like ``tree-sitter-*``, whose new versions may change the outcome
    by more than the rounding of numbers: these versions are part of the cache key."""

    distribution: ClassVar[str | None] = None
    """The package that brings these options as a plug-in; its version is part of the cache key, too."""

    def versions(self) -> dict[str, str | None]:
        """The versions that are part of the cache key, by package; see ``hashed_packages``."""
        hashed = [name for name in self.packages if any(fnmatch(name, pattern) for pattern in self.hashed_packages)]
        hashed += [self.distribution] if self.distribution else []
        return {name: installed_version(name) for name in hashed}

    def hashed_options(self) -> dict[str, Any]:
        """The options that change the outcome, as JSON values: they are hashed."""
        return self.model_dump(mode="json", exclude=set(self.unhashed))

    def summary(self) -> str:
        """One line that distinguishes these options from others of their kind: the kind, and the chosen options that
        matter.
        """
        kind = str(getattr(self, "kind", ""))
        named = (self.model_fields_set - self.unhashed | set(self.named_by)) - {"kind"}
        values = self.model_dump(include=named)
        first = [name for name in self.named_by if name in values]
        chosen = [f"{name}={values[name]}" for name in dict.fromkeys([*first, *values])]
        return " ".join([kind, *chosen]).strip()


_IN_NO_PATH = re.compile("[\\0\\ud800-\\udfff]")


VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*+))?\}")
"""``${NAME}`` and ``${NAME:-default}`` in the strings of a config file."""


class LocatedText(str):
    """A string of a config file that knows the folder it was written in, for the paths among them.

    ``written`` is the string before variables were put in.
    """

    folder: Path
    written: str

    def __new__(cls, text: str, folder: Path, written: str | None = None) -> Self:
        made = super().__new__(cls, text)
        made.folder = folder
        made.written = text if written is None else written
        return made

    @property
    def variable(self) -> str:
        """The environment variable that it is, where ``${NAME}`` was written and nothing else; else empty."""
        found = VARIABLE.fullmatch(self.written)
        return found[1] if found and found[2] is None else ""


def with_variables(value: Any) -> Any:
    """``value`` with each text of a config as it was written: with the names of variables, not their values."""
    if isinstance(value, Mapping):
        return {key: with_variables(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_variables(inner) for inner in value]
    return value.written if isinstance(value, LocatedText) else value


def expand_user(path: str) -> Path:
    """``path`` with ``~`` or ``~user`` resolved; as it is where there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises where there is no such user


def from_here(path: str | Path) -> str:
    """``path`` as it is named in the current folder, if that contains it; else as it is."""
    return str(Path(path).relative_to(Path.cwd()) if Path(path).is_relative_to(Path.cwd()) else path)


def _absolute(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("a path must not be empty.")
    if _IN_NO_PATH.search(value):
        raise ValueError("a path must not have the character NUL, nor half of a surrogate pair.")
    folder = value.folder if isinstance(value, LocatedText) else Path()
    return os.path.normpath(folder.absolute() / expand_user(value))


def located(text: str) -> str:
    """The path that ``text`` is, made absolute as PathText is."""
    return str(_absolute(text))


def _model_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("a model's name must not be empty.")
    path = str(_absolute(value))
    looks_local = value.startswith((".", "/", "~")) or Path(path).is_dir()
    return path if looks_local else str(value)


TOKENIZERS = ("embedder", "characters", "words")
"""The counters of lengths, besides a tokenizer.json."""


def _tokenizer_name(value: object) -> object:
    return str(value) if value in TOKENIZERS else _absolute(value)


PathText = Annotated[str, BeforeValidator(_absolute)]
"""A path, made absolute from the folder of the file it was written in (the current one without a file)."""

ModelName = Annotated[str, BeforeValidator(_model_name)]
"""A model's name on the hub, or the path of a local folder (made absolute as PathText is)."""

TokenizerName = Annotated[str, BeforeValidator(_tokenizer_name)]
"""One of TOKENIZERS, or the path of a tokenizer.json (made absolute as PathText is)."""


def validate(model: type[M], value: object, error: type[InputError], fault_at: Callable[[FieldPath, str], Fault]) -> M:
    """``value`` as a ``model``, or ``error`` with every fault, each placed by ``fault_at(path, message)``."""
    try:
        return model.model_validate(value)
    except ValidationError as failure:
        faults = []
        details = [(_in_value(detail["loc"], value, detail["type"]), detail) for detail in failure.errors()]
        expected: dict[FieldPath, dict[str, None]] = {}  # a union expects several types at one place
        for path, detail in details:
            if detail["type"] in _EXPECTED:
                expected.setdefault(path, {})[_EXPECTED[detail["type"]]] = None
        for path, detail in details:
            message = _sentence(model, path, detail, " or ".join(expected.get(path, ())))
            if message:
                faults.append(fault_at(path, message))
        in_order = sorted(dict.fromkeys(faults), key=lambda fault: (fault.file, fault.line, fault.column))
        raise error(*in_order) from None


def dotted(path: FieldPath) -> str:
    """``retrievers.dense.top_k``, ``queries[3].text``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: object) -> str:
    """A value as it is shown in a message: short, and as YAML and JSON spell it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _in_value(loc: tuple[str | int, ...], value: object, kind: str) -> FieldPath:
    """``loc`` without the parts that pydantic adds (a union's tag, ``[key]``); a missing key is kept."""
    path: list[str | int] = []
    for index, part in enumerate(loc):
        if isinstance(value, Mapping):
            if part in value:
                value = value[part]
                path.append(part)
            elif kind == "missing" and index == len(loc) - 1:
                path.append(part)
        elif isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            value = value[part]
            path.append(part)
    return tuple(path)


def _sentence(model: type[BaseModel], path: FieldPath, detail: Mapping[str, Any], expected: str) -> str:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    name = dotted(path) or "the file"
    says = f"{name} is {shown(found)}; it must be "
    annotation, field = _field_at(model, detail["loc"])
    tags = [tag for one in _models_in(annotation) if (tag := _tag_of(one))]
    is_optional = field is None or not field.is_required()
    if kind == "extra_forbidden":
        return _unknown_key(model, path, detail["loc"], found)
    if kind == "missing":
        return f"{name} is missing; it is required."
    if kind.startswith("union_tag") and isinstance(found, Mapping):
        missing = f"{name}.kind is missing; it must be one of: {listed(tags, 40)}."
        return _choice(f"{name}.kind", found["kind"], tags) if "kind" in found else missing
    if kind in _EXPECTED or kind == "union_tag_not_found":
        like = f", like {{kind: {found if found in tags else tags[0]}}}" if len(tags) > 1 else ""
        leave_out = " Leave the key out for its default." if found is None and is_optional else ""
        return f"{says}{expected or _EXPECTED['model_type']}{like}.{leave_out}"
    if kind == "literal_error":
        return _choice(name, found, [part.strip(" '") for part in re.split(",| or ", context["expected"])])
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        is_plain = is_optional and field is not None and isinstance(field.default, int | float | str)
        return f"{says}{words} {context[key]}{f' (default {field.default})' if is_plain else ''}."
    if kind == "string_pattern_mismatch":
        rule = _PATTERNS.get(context["pattern"], f"as the pattern {context['pattern']} says")
        if detail["loc"][-1] == "[key]":
            return f"{dotted(path[:-1])} has the name {shown(found)}; a name must be {rule}."
        return f"{says}{rule}."
    if kind == "too_short":
        return f"{name} has {context['actual_length']} entries; it must have at least {context['min_length']}."
    said = str(context["error"]) if kind == "value_error" else f"{detail['msg']} (found {shown(found)})."
    return f"{name}: {said}" if path else said


_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "question": ("text",), "query": ("text",), "answer": ("relevant_docs",), "answers": ("relevant_docs",),
    "k": ("top_k",), "similarity_top_k": ("top_k",), "limit": ("top_k",), "n_results": ("top_k",),
    "num_results": ("top_k",), "depth": ("top_k",), "rrf_k": ("rank_constant",), "fetch_k": ("candidates",),
    "num_candidates": ("candidates",), "lambda_mult": ("diversity",), "of": ("inputs",), "retrievers": ("inputs",),
    "chunk_size": ("size",), "split_length": ("size",), "max_size": ("size",), "max_tokens": ("size", "max_length"),
    "chunk_overlap": ("overlap",), "split_overlap": ("overlap",), "stopwords": ("stop_words",),
    "language": ("stemmer",), "name": ("model", "experiment"), "model_name": ("model",), "model_id": ("model",),
    "url": ("base_url",), "endpoint": ("base_url",), "api_base": ("base_url",), "host": ("base_url", "url"),
    "key": ("api_key",), "token": ("api_key",), "dim": ("dimensions",), "dimension": ("dimensions",),
    "prefix": ("document_prefix",), "query_prompt": ("query_prefix",), "document_prompt": ("document_prefix",),
    "max_seq_length": ("max_length",), "metric": ("space", "primary_metric"), "distance": ("space",),
    "similarity": ("space",), "labels": ("queries",), "qrels": ("queries",), "ground_truth": ("queries",),
    "documents": ("corpus",), "docs": ("corpus",), "path": ("corpus",), "dims": ("dimensions",),
    "query_instruction": ("query_prefix",), "instruction": ("query_prefix",), "passage_prefix": ("document_prefix",),
    "deployment": ("model",), "azure_endpoint": ("base_url",), "max_input_tokens": ("max_length",),
    "input_type": ("query_fields",), "task": ("query_fields",), "dsn": ("url",), "uri": ("url",),
    "connection_string": ("url",), "length": ("size",), "chunk_length": ("size",), "max_chars": ("size",),
    "final_k": ("top_k",), "random_seed": ("seed",), "random_state": ("seed",), "title": ("experiment",),
    "vector_store": ("store",), "vector_db": ("store",), "splitter": ("chunker",), "text_splitter": ("chunker",),
    "metrics": ("evaluators",), "cache_dir": ("workspace",), "n_jobs": ("workers",), "num_workers": ("workers",),
}  # fmt: skip
"""The names of keys in other tools or sections: the first of our keys that is allowed here counts."""

_OTHER_KINDS = (
    (("hybrid", "ensemble", "rrf"), "fusion", "Hybrid search is a fusion of dense and bm25"),
    (("gemini", "ollama", "vllm", "tei", "infinity"), "openai", "It has an endpoint in OpenAI's form"),
    (("huggingface", "static", "model2vec"), "sentence-transformer", "Models of the hub load in that library"),
)
"""The names of kinds in other tools, ours, and the reason."""


def _unknown_key(model: type[BaseModel], path: FieldPath, loc: FieldPath, value: object) -> str:
    key, inside = str(path[-1]), f" in {dotted(path[:-1])}" if path[:-1] else ""
    owner = _models_in(_field_at(model, loc[:-1])[0])[0]
    allowed, names = list(_fields(owner)), [key, *_SYNONYMS.get(key, ())]
    meant = [name for name in names if name in allowed]
    below = [
        f"{section}.{name}" for name in names for section, field in _fields(owner).items()
        if any(name in _fields(inner) for inner in _models_in(_annotation(field)))
    ]  # fmt: skip
    near = did_you_mean(key, allowed, 0.5 if len(key) == 2 else 0.6)  # kl is as near to k1 as two letters can be
    if meant:
        near = f" Did you mean {meant[0]!r}?"
    elif below:
        near = f" Did you mean {' or '.join(below[:3])}?"
    elif _tag_of(owner) and (others := _of_other_kinds(model, loc, names)):
        near = others
    elif "retrievers" in allowed and isinstance(value, Mapping) and value and not near:
        near = f" If it is a retriever, write retrievers.{key}.{next(iter(value))}."
    return f"unknown key {key!r}{inside}.{near} Allowed here: {listed(allowed, 40)}."


def _of_other_kinds(model: type[BaseModel], loc: FieldPath, names: Sequence[str]) -> str:
    """A sentence on the other kinds that have the first of ``names``; empty if there is none."""
    kinds = [(tag, _fields(one)) for one in _models_in(_field_at(model, loc[:-2])[0]) if (tag := _tag_of(one))]
    for name in names:
        if having := [tag for tag, fields in kinds if name in fields]:
            return f" {'That' if name == names[0] else name} is an option of kind: {listed(having)}."
    return ""


def _choice(name: str, found: object, valid: Sequence[str]) -> str:
    near = did_you_mean(str(found), valid)
    for other, kind, why in _OTHER_KINDS:
        if found in other and kind in valid:
            near = f" {why}: kind: {kind}."
    return f"{name} is {shown(found)}; it must be one of: {listed(valid, 40)}.{near}"


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, AnyOf):
        return annotation.classes()
    if typing.get_origin(annotation) in (Annotated, typing.Union, types.UnionType):
        arguments = typing.get_args(annotation)
        return [found for argument in arguments for found in _models_in(argument)]
    return []


def _annotation(field: Any) -> Any:
    """The annotation of a field, with its metadata."""
    annotation = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    return annotation


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """The fields of a model by the keys that files have for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _tag_of(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    values = typing.get_args(field.annotation) if field else ()
    return str(values[0]) if values else None


def _field_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[Any, Any]:
    """The annotation and the field that pydantic's ``loc`` leads to, from ``model`` down."""
    annotation: Any = model
    field: Any = None
    for part in loc:
        models = _models_in(annotation)
        if models:
            tagged = [candidate for candidate in models if len(models) > 1 and _tag_of(candidate) == part]
            if tagged:
                annotation = tagged[0]
            elif (named := _fields(models[0]).get(str(part))) is not None:
                field, annotation = named, _annotation(named)
            continue
        annotation = _element(annotation)
    return annotation, field


def _element(annotation: Any) -> Any:
    """The type of the values of a mapping or a list with this annotation."""
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next((_element(one) for one in typing.get_args(annotation) if typing.get_args(one)), None)
    arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
    return arguments[-1] if arguments else None


def field_docstrings(model: type[Any]) -> dict[str, str]:
    """The docstring of each field of a model or dataclass, of the nearest class that describes it."""
    fields = getattr(model, "model_fields", None) or getattr(model, "__dataclass_fields__", {})
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        texts |= _described_in(cls)
    return {name: text for name, text in texts.items() if name in fields}


def declarations(model: type[BaseModel]) -> dict[str, type]:
    """The class that declares each key of ``model``: the nearest that describes it.

    A class that only changes the default or the limits of an inherited option has no docstring for it.
    """
    return {field.alias or name: _declaring_class(model, name) for name, field in model.model_fields.items()}


def kinds_at(model: type[BaseModel], path: Sequence[str], value: object) -> dict[str, type[BaseModel]]:
    """The options that the section of ``value`` under ``path`` may be, by kind; empty if it has no kinds."""
    loc: list[str] = []
    for part in path:
        section: Mapping[str, object] = value if isinstance(value, Mapping) else {}
        loc += [str(section["kind"]), part] if "kind" in section else [part]
        value = section.get(part)
    return {tag: cls for cls in _models_in(_field_at(model, tuple(loc))[0]) if (tag := _tag_of(cls)) is not None}


def _declaring_class(model: type[BaseModel], name: str) -> type:
    classes = [cls for cls in model.__mro__ if name in inspect.get_annotations(cls)]
    return next((cls for cls in classes if name in _described_in(cls)), classes[0])


def _described_in(cls: type[Any]) -> Mapping[str, str]:
    """The docstrings below the attributes that ``cls`` declares itself."""
    return _docstrings(getattr(sys.modules[cls.__module__], "__file__", None)).get(cls.__qualname__, {})


@cache
def _docstrings(file: str | None) -> Mapping[str, Mapping[str, str]]:
    """By the qualified name of each class in the file, the docstrings below its attributes."""
    if file is None or not file.endswith(".py"):
        return {}
    return dict(_of_classes(ast.parse(Path(file).read_bytes()), ""))


def _of_classes(node: Any, outer: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef):
            pairs = zip(one.body, one.body[1:], strict=False)
            yield outer + one.name, {name: text for pair in pairs for name, text in _below(*pair)}
            yield from _of_classes(one, f"{outer}{one.name}.")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_classes(one, f"{outer}{one.name}.<locals>.")
        else:
            yield from _of_classes(one, outer)


def _below(declared: ast.stmt, below: ast.stmt) -> Iterator[tuple[str, str]]:
    """The name of an annotated attribute and the text below it, if these are that."""
    if isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name) and isinstance(below, ast.Expr):
        value = below.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield declared.target.id, inspect.cleandoc(value.value)


def parts_of(url: str) -> SplitResult | None:
    """The parts of a URL that has a scheme, a host and, if any, a valid port; None for any other text."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is no number
        return None
    return parts if is_whole else None


def _from_environment(value: object) -> object:
    if not isinstance(value, LocatedText):
        return value
    variables = VARIABLE.findall(value.written)
    is_partly_written = ":-" in value.written and not VARIABLE.fullmatch(value.written)
    if not variables or is_partly_written or any(default for _, default in variables):
        raise ValueError(
            "a secret must not be in the config, which is copied into every report. Put it into an environment "
            'variable and name that, without a default: "${NAME}".'
        )
    for name, _ in variables:
        withhold(name)
    return value


Secret = Annotated[SecretStr, BeforeValidator(_from_environment)]
"""A password, a key or a token: in a config file only as ``${NAME}``, never as a default."""


def _variable_name(value: object) -> object:
    written = value.written if isinstance(value, LocatedText) else value
    variable = VARIABLE.fullmatch(written) if isinstance(written, str) else None
    if variable is None or variable[2] is not None:
        raise ValueError(
            "must be an environment variable and nothing else, like ${OPENAI_API_KEY}; keys do not belong in files."
        )
    return variable[1]


KeyVariable = Annotated[
    str,
    BeforeValidator(_variable_name),
    PlainSerializer(lambda name: f"${{{name}}}", return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}),
]
"""The name of an environment variable, written ``${NAME}``; options never contain the key itself."""
