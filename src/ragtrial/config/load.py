"""From a YAML file to a config: extends, overrides, validation, and the checks between its parts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragtrial.components.chunkers.base import Chunker
from ragtrial.components.tokenizers import CHARACTERS_PER_TOKEN
from ragtrial.config.metric_choice import choose_metrics
from ragtrial.config.models import ExperimentConfig, effective, scored
from ragtrial.config.strict_yaml import AS_WRITTEN, KeyPath, YamlText, merged, parse_yaml
from ragtrial.config.sweep import METHODS, PlacedFault, keys_in
from ragtrial.config.variants import all_configs, follow, kind_changes, laid_over, nested
from ragtrial.dataset.datasets import DatasetOptions, load_dataset
from ragtrial.dataset.documents import corpus_files
from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError, Fault, InputError, did_you_mean, listed
from ragtrial.options import VARIABLE, dotted, expand_user, shown
from ragtrial.records import ReportWarning
from ragtrial.report.schema import context_cost

MOST_BYTES = 1_000_000
"""The limit of a config file. Each key is kept with its place, which takes time and memory."""


AnyConfig = str | Path | Mapping[str, Any] | ExperimentConfig
"""The path of a YAML file, the same content as a mapping, or a config."""


def load_config(config: AnyConfig, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The config of a YAML file or of a dict, with ``overrides`` like ``retrievers.dense.top_k=20`` on top.

    A config is returned as it is. Paths in a file are relative to it, paths in a dict and in overrides to the current
    folder. Raises ConfigError with every fault, and its file, line and column if it is in a file; faults of the labels
    are among them.
    """
    if isinstance(config, ExperimentConfig) and not overrides:
        return config
    dropped: list[ReportWarning] = []
    if isinstance(config, ExperimentConfig):
        content, file, text = config.content, config.file, None
    elif isinstance(config, Mapping):
        content, file, text = _on_bases(_of_mapping(config), Path.cwd(), (), {}), None, None
    else:
        content, file = _read(Path(config), (), {}), str(Path(config))
        text = read_text(Path(file), ConfigError)
    content = _with_overrides(content, overrides, dropped).without("extends")
    _refuse_swept(overrides, content.value)
    try:
        loaded = ExperimentConfig.of(content, file, text, dropped)
        check(loaded)
    except ConfigError as error:
        raise ConfigError(*error.faults, *(_data_faults(content.value) if file else ())) from None
    return loaded


def _data_faults(value: Mapping[str, Any]) -> Sequence[Fault]:
    """The faults of the labels and of the path of the documents; none if the section that names them is wrong."""
    try:
        corpus_files(load_dataset(DatasetOptions.model_validate(value.get("dataset"))).corpus)
    except ValidationError:
        return ()
    except InputError as error:
        return error.faults
    return ()


def _of_mapping(config: Mapping[str, Any]) -> YamlText:
    """The content of a mapping, which has no lines. Paths become texts, and numbers of NumPy numbers."""
    text = json.dumps(config, ensure_ascii=False, default=lambda value: getattr(value, "item", value.__str__)())
    content = parse_yaml(text, "the given config", Path.cwd())
    return replace(content, places=dict.fromkeys(content.places, Fault()))


def written_in(path: str | Path) -> dict[str, Any]:
    """The content of a YAML file and of its bases, with variables unresolved; not checked. Raises ConfigError."""
    return dict(_read(Path(path), (), {}).without("extends").written)


def config_as_written(
    written: Mapping[str, Any],
    folder: Path,
    overrides: Sequence[str] = (),
    place: str = "config",
    named: ExperimentConfig | None = None,
) -> ExperimentConfig:
    """The config that a report holds, with ``overrides`` on top; not yet checked as a whole.

    Only variables that ``named``, a config of the user, contains are read, since the writer of the report would choose
    all others. Paths are relative to ``folder``, the assumed folder of its file. Raises ConfigError as ``load_config``
    does; ``place`` says for messages where the config was found.
    """
    names = VARIABLE.findall(json.dumps(named.as_written)) if named else ()
    environment = {name: os.environ[name] for name, _ in names if name in os.environ} or AS_WRITTEN
    content = parse_yaml(json.dumps(written, ensure_ascii=False), place, folder, environment)
    content = _with_overrides(content, overrides, [])
    _refuse_swept(overrides, content.value)
    return ExperimentConfig.of(content, str(folder / "config.yaml"))


def check(config: ExperimentConfig) -> None:
    """Raise ConfigError for contradictions between the parts of ``config``, and of every config of its sweep."""
    _raise_any(config.fault_at(*fault) for fault in (*check_config(config), *_search_faults(config)))
    variants = list(all_configs(config))
    _raise_any(variant.fault_at(*fault) for variant in variants for fault in check_config(variant))
    if config.search:
        from ragtrial.config.space import invalid_values

        _raise_any(invalid_values(config, check_config))
    used = {part for variant in variants for ranker in variant.retrievers.values() for part in ranker.parts}
    unused = []
    for name in (name for name, ranker in config.retrievers.items() if not ranker.score and name not in used):
        why = f"no refiner has {name!r} among its inputs: it would do nothing."
        unused.append(config.fault_at(("retrievers", name, "score"), f"retrievers.{name}.score is false and {why}"))
    _raise_any(unused)


def _raise_any(faults: Iterable[Fault]) -> None:
    ConfigError.raise_any(dict.fromkeys(faults))


def check_config(config: ExperimentConfig) -> list[PlacedFault]:
    """Contradictions between parts of a config that are each valid, with the place of each fault."""
    faults = [*_part_faults(config), *_evaluator_faults(config)]
    faults += choose_metrics(config)[1] if scored(config) else []
    return list(dict.fromkeys([*faults, *_token_faults(config)]))


def _evaluator_faults(config: ExperimentConfig) -> Iterator[PlacedFault]:
    options = config.evaluators
    if options.unit == "document" and "span_coverage" in options.model_fields_set:
        message = "evaluators.span_coverage has no effect without unit: span; set that, or leave it out."
        yield ("evaluators", "span_coverage"), message
    if options.unit == "span" and options.ties == "trec":
        yield ("evaluators", "ties"), "evaluators.ties is trec, which orders documents; leave it out under unit: span."
    if options.budget is not None and not config.embedder.has_tokenizer:
        counted = f"counts tokens of the {config.embedder.kind} embedder, which has no tokenizer"
        yield ("evaluators", "budget"), f"evaluators.budget {counted}; give it a tokenizer_model."


def _token_faults(config: ExperimentConfig) -> Iterator[PlacedFault]:
    """Chunkers that count tokens of embedders without a tokenizer."""
    for name, retriever in config.retrievers.items():
        chunker, embedder = effective(config, retriever, "chunker"), effective(config, retriever, "embedder")
        if "chunker" in retriever.depends_on and chunker.counted_by == "embedder" and not embedder.has_tokenizer:
            own = getattr(retriever, "chunker", None) is not None
            where: KeyPath = ("retrievers", name, "chunker", "unit") if own else ("chunker", "unit")
            message = (
                f"{dotted(where)} is tokens, but the {embedder.kind} embedder has no tokenizer to count them; "
                f"set unit: characters{_in_characters(chunker)} or tokenizer: words, or give the embedder a "
                "tokenizer_model."
            )
            yield where, message


def _in_characters(chunker: Chunker) -> str:
    """The sizes in characters that are about those in tokens of English."""
    sizes = [(name, getattr(chunker, name, None)) for name in ("size", "overlap")]
    named = [f"{name}: {size * CHARACTERS_PER_TOKEN}" for name, size in sizes if isinstance(size, int)]
    return f" ({', '.join(named)} is about as long)" if named else ""


def _part_faults(config: ExperimentConfig) -> Iterator[PlacedFault]:
    """Faults of the parts that refiners name: unknown names, and circles."""
    if not scored(config):
        yield ("retrievers",), "every retriever has `score: false`; at least one must be a setting of its own."
    for name, ranker in config.retrievers.items():
        where = ("retrievers", name, "inputs")
        for part in ranker.parts:
            if part not in config.retrievers:
                others = [retriever for retriever in config.retrievers if retriever != name]
                near = did_you_mean(part, others)
                yield where, f"{dotted(where)} names {part!r}, which is not a retriever.{near} Known: {listed(others)}."
    try:
        TopologicalSorter({name: ranker.parts for name, ranker in config.retrievers.items()}).prepare()
    except CycleError as error:
        ring = error.args[1][::-1]
        where = ("retrievers", ring[0], "inputs")
        yield where, f"{dotted(where)} leads back to itself: {' -> '.join(ring)}; a refiner cannot refine itself."


def _read(file: Path, chain: tuple[Path, ...], known: dict[Path, YamlText]) -> YamlText:
    """The content of ``file`` merged over its bases; ``known`` are files that were read, to read each once."""
    resolved = file.resolve()
    if resolved not in known:
        known[resolved] = _read_afresh(file, resolved, chain, known)
    return known[resolved]


def _read_afresh(file: Path, resolved: Path, chain: tuple[Path, ...], known: dict[Path, YamlText]) -> YamlText:
    if file.is_file() and (size := file.stat().st_size) > MOST_BYTES:
        message = f"has {size:,} bytes, and a config has at most {MOST_BYTES:,}; labels have a file of their own."
        raise ConfigError(Fault(str(file), message=message))
    content = parse_yaml(read_text(file, ConfigError), str(file), resolved.parent)
    if not isinstance(content.value, dict):
        raise ConfigError(content.fault_at((), "must be a mapping of keys to values, like `experiment: first`."))
    return _on_bases(content, resolved.parent, (*chain, resolved), known)


def _on_bases(content: YamlText, folder: Path, chain: tuple[Path, ...], known: dict[Path, YamlText]) -> YamlText:
    """``content`` merged over the files in ``folder`` that it extends; ``chain`` are the files that led to it."""
    laid = YamlText({}, {})
    for where, base in _bases(content, folder):
        if base.resolve() in chain:
            ring = " -> ".join(map(str, (*chain, base.resolve())))
            raise ConfigError(content.fault_at(where, f"extends itself: {ring}."))
        laid = merged(laid, _read(base, chain, known))
    return _without_removed(merged(laid, content), laid)


def _without_removed(content: YamlText, base: YamlText) -> YamlText:
    """``content`` without the retrievers of ``base`` that it sets to null."""
    before, now = base.value.get("retrievers"), content.value.get("retrievers")
    if not isinstance(before, dict) or not isinstance(now, dict):
        return content
    kept = [name for name, entry in now.items() if entry is not None or name not in before]
    value, written = (
        {**whole, "retrievers": {name: whole["retrievers"][name] for name in kept}}
        for whole in (content.value, content.written)
    )
    return YamlText(value, written, content.places)


def _bases(content: YamlText, folder: Path) -> Iterator[tuple[KeyPath, Path]]:
    """The configs that ``content`` is laid upon, each with the place where it is named."""
    named = content.value.get("extends", [])
    for index, name in enumerate(named if isinstance(named, list) else [named]):
        where: KeyPath = ("extends", index) if isinstance(named, list) else ("extends",)
        base = folder / expand_user(name) if isinstance(name, str) else None
        if base is None or not base.is_file():
            fault = f"there is no file {base}" if base else "it must be a path, or a list of paths"
            raise ConfigError(content.fault_at(where, f"extends is {shown(name)}; {fault}."))
        yield where, base


def _refuse_swept(overrides: Sequence[str], config: Mapping[str, Any]) -> None:
    """Raise ConfigError for overrides of keys that the sweep sets: they would change nothing."""
    matrix = follow(config, ("sweep", "matrix"))
    swept = {key: entry for entry in (matrix if isinstance(matrix, Mapping) else ()) for key in keys_in(str(entry))}
    keys = enumerate((override.partition("=")[0].strip() for override in overrides), 1)
    _raise_any(
        Fault(f"--set #{number}", message=f"{key} is an axis of the sweep; set sweep.matrix.{swept[key]} instead.")
        for number, key in keys
        if key in swept
    )


def _with_overrides(content: YamlText, overrides: Sequence[str], dropped: list[ReportWarning]) -> YamlText:
    laid = YamlText({}, {})
    for number, override in enumerate(overrides, 1):
        laid = merged(laid, _override(override, f"--set #{number}", merged(content, laid).value))
    keys = [override.partition("=")[0].strip() for override in overrides]
    values = {key: follow(laid.value, tuple(key.split("."))) for key in keys}
    dropped += [change.warning() for change in kind_changes(content.value, values) if change.dropped]
    return laid_over(content, laid, values, "set whole")


def _override(text: str, place: str, config: Mapping[str, Any]) -> YamlText:
    key, equals, value = (part.strip() for part in text.partition("="))
    axis = key.removeprefix("sweep.matrix.")  # one part of the key, dots and all
    parts = key.split(".") if axis == key else ["sweep", "matrix", axis]
    known = config.get("retrievers") or {}
    message = ""
    if not equals or not all(parts):
        message = f"{text!r} must be written KEY=VALUE, like retrievers.dense.top_k=20."
    elif value.startswith("#"):
        message = f"{text!r}: a value that begins with # must be in quotes."
    elif parts[0] == "extends":
        message = "extends can only be written in a file; set the keys themselves."
    elif parts[0] == "retrievers" and len(parts) > 2 and parts[1] not in known:
        message = f"there is no retriever {parts[1]!r}.{did_you_mean(parts[1], known)} Known: {listed(known)}."
    if message:
        raise ConfigError(Fault(place, message=message))
    content = parse_yaml(value or "''", place, Path.cwd())
    paths: list[KeyPath] = [tuple(parts[:length]) for length in range(1, len(parts) + 1)]
    paths += [(*parts, *path) for path in content.places]
    places = dict.fromkeys(paths, Fault(place))
    return YamlText(nested(parts, content.value), nested(parts, content.written), places)


def _search_faults(config: ExperimentConfig) -> Iterator[PlacedFault]:
    """The faults of a search, each with its place; nothing without one."""
    search = config.search
    if search is None:
        return
    if config.sweep is None or not config.sweep.matrix:
        axes = "name some in sweep.matrix, like {chunker.size: [128, 256]}"
        yield ("search",), f"search has no axes to search along; {axes}."
    if METHODS[search.method].is_adaptive and search.held_out is None:
        why = "which looks at the labels while it searches, so that the verdict needs other queries"
        message = f"search.method is {search.method}, {why}: set search.held_out, like 0.3, or method: random."
        yield ("search", "method"), message
    if search.group_by and not isinstance(search.held_out, float):
        yield ("search", "group_by"), "search.group_by has no effect without a share in search.held_out; set one."
    if search.baseline is not None and search.baseline not in (known := list(scored(config))):
        message = f"search.baseline is {search.baseline!r}.{did_you_mean(search.baseline, known)}"
        yield ("search", "baseline"), f"{message} It must be one of {listed(known)}."
    cutoffs = sorted({metric.k for metric in choose_metrics(config)[0].metrics if metric.k})
    for name in search.within:
        context = context_cost(name)
        if context and context[1] not in cutoffs:
            message = (
                f"search.within.{name}: no metric is cut at {context[1]}, so that the text of so many hits is not "
                f"counted; take one of {listed(map(str, cutoffs))}, or add that k to evaluators."
            )
            yield ("search", "within", name), message
        if name.startswith("latency.") and config.latency is False:
            message = f"search.within.{name} needs the latency, and latency is false; leave that out."
            yield ("search", "within", name), message
