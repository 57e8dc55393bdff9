"""From a YAML file to a config: extends, overrides, validation, and the checks between its parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from ragtrial.config.extends import merged
from ragtrial.config.metric_choice import choose_metrics
from ragtrial.config.models import ExperimentConfig, effective, scored
from ragtrial.config.renamed_keys import with_new_names
from ragtrial.config.strict_yaml import KeyPath, YamlText, parse_yaml
from ragtrial.config.sweep import keys_in
from ragtrial.config.variants import all_configs, check_variants
from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError, Fault, did_you_mean, listed
from ragtrial.options import dotted, expand_user, shown, validate
from ragtrial.records import ReportWarning


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The config of a YAML file, with ``overrides`` like ``retrievers.dense.top_k=20`` on top.

    Paths in the file are relative to it, those of overrides to the current folder. Raises ConfigError with every
    fault, its file, line and column.
    """
    file = Path(path)
    renamed: list[ReportWarning] = []
    content = _with_overrides(_read(file, (), renamed), overrides, renamed)
    content.value.pop("extends", None)
    content.written.pop("extends", None)
    _refuse_swept(overrides, content.value)
    config = validate(ExperimentConfig, content.value, ConfigError, content.fault_at)
    config.remember(content, str(file), file.read_text(encoding="utf-8-sig"), renamed)
    check(config)
    return config


def config_as_written(
    written: Mapping[str, Any], folder: Path, overrides: Sequence[str] = (), place: str = "config"
) -> ExperimentConfig:
    """The config that a report holds, with ``overrides`` on top; not yet checked as a whole.

    Paths are relative to ``folder``, where its file is taken to stand. Raises ConfigError as ``load_config`` does;
    ``place`` says for messages where the config was found.
    """
    content, _ = with_new_names(parse_yaml(json.dumps(written, ensure_ascii=False), place, folder))
    content = _with_overrides(content, overrides, [])
    _refuse_swept(overrides, content.value)
    config = validate(ExperimentConfig, content.value, ConfigError, content.fault_at)
    config.remember(content, str(folder / "config.yaml"), None)
    return config


def check(config: ExperimentConfig) -> None:
    """Raise ConfigError for what is wrong between the parts of ``config``, and of every config its sweep makes."""
    faults = check_config(config)
    if config.sweep is None:
        faults += _unused_parts(config, [config])
    if faults:
        raise ConfigError(*(config.fault_at(where, message) for where, message in faults))
    check_variants(config, check_config)
    if config.sweep is not None:  # which may name other parts
        faults = list(_unused_parts(config, all_configs(config)))
        if faults:
            raise ConfigError(*(config.fault_at(where, message) for where, message in faults))


def check_config(config: ExperimentConfig) -> list[tuple[KeyPath, str]]:
    """What is wrong between the parts of a config that are each right, with the place of each fault."""
    faults: list[tuple[KeyPath, str]] = []
    options = config.evaluators
    if options.unit == "document" and "span_coverage" in options.model_fields_set:
        message = "evaluators.span_coverage plays a part only under unit: span; set that, or leave it out."
        faults.append((("evaluators", "span_coverage"), message))
    if options.budget is not None and not config.embedder.has_tokenizer:
        message = (
            "evaluators.budget is counted in tokens of the config's embedder, and a custom embedder has no tokenizer; "
            "give it a tokenizer_model."
        )
        faults.append((("evaluators", "budget"), message))
    faults += [*_name_faults(config), *_part_faults(config)]
    faults += choose_metrics(config, ordered=False)[1] if scored(config) else []
    for name, retriever in config.retrievers.items():
        chunker, embedder = effective(config, retriever, "chunker"), effective(config, retriever, "embedder")
        if "chunker" in retriever.reached_by and chunker.unit_is_tokens and not embedder.has_tokenizer:
            own = getattr(retriever, "chunker", None) is not None
            where: KeyPath = ("retrievers", name, "chunker", "unit") if own else ("chunker", "unit")
            message = (
                f"{dotted(where)} is tokens, but the custom embedder has no tokenizer to count them; "
                "set unit: characters or tokenizer: words, or give the embedder a tokenizer_model."
            )
            faults.append((where, message))
    return list(dict.fromkeys(faults))


def _name_faults(config: ExperimentConfig) -> Iterator[tuple[KeyPath, str]]:
    """Settings whose names would be one file where the case of letters does not tell files apart."""
    first: dict[str, str] = {}
    for name in scored(config):
        other = first.setdefault(name.casefold(), name)
        if other != name:
            where: KeyPath = ("retrievers", name)
            yield (
                where,
                f"{dotted(where)} differs from {other!r} only in the case of letters, and rankings are kept in files "
                "of these names, which are one file on some systems; rename one of them.",
            )


def _part_faults(config: ExperimentConfig) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the parts that refiners name: unknown ones, and those that lead back to the refiner."""
    if not scored(config):
        yield ("retrievers",), "every retriever has `score: false`; at least one must be a setting of its own."
    for name, ranker in config.retrievers.items():
        for part in ranker.parts:
            where: KeyPath = ("retrievers", name, "inputs")
            if part not in config.retrievers:
                others = [one for one in config.retrievers if one != name]
                known = f"{did_you_mean(part, others)} Known: {listed(others)}." if others else ""
                yield where, f"{dotted(where)} names {part!r}, which is no retriever.{known}"
            elif ring := _ring(config, name, part):
                yield (
                    where,
                    f"{dotted(where)} leads back to {name!r}: {' -> '.join(ring)}; a refiner cannot refine itself.",
                )


def _unused_parts(config: ExperimentConfig, variants: Iterable[ExperimentConfig]) -> Iterator[tuple[KeyPath, str]]:
    """The retrievers that are no settings, and in none of ``variants`` a part of one."""
    used = {part for one in variants for ranker in one.retrievers.values() for part in ranker.parts}
    for name, ranker in config.retrievers.items():
        if not ranker.score and name not in used:
            where: KeyPath = ("retrievers", name, "score")
            message = f"{dotted(where)} is false and no refiner has {name!r} among its inputs: it would do nothing."
            yield where, message


def _ring(config: ExperimentConfig, name: str, part: str) -> list[str]:
    """The way from ``name`` over ``part`` back to ``name``; empty if there is none."""
    ways = [[name, part]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        if way[-1] == name:
            return way
        if way[-1] not in seen and way[-1] in config.retrievers:
            seen.add(way[-1])
            ways += [[*way, following] for following in config.retrievers[way[-1]].parts]
    return []


def _read(file: Path, chain: tuple[Path, ...], renamed: list[ReportWarning]) -> YamlText:
    """The content of ``file`` on that of its bases; warnings of keys with a former name go to ``renamed``."""
    resolved = file.resolve()
    content, warnings = with_new_names(parse_yaml(read_text(file, ConfigError), str(file), resolved.parent))
    renamed += warnings
    if not isinstance(content.value, dict):
        raise ConfigError(content.fault_at((), "must be a mapping of keys to values, like `experiment: first`."))
    laid = YamlText({}, {})
    for where, base in _bases(content, resolved.parent):
        if base.resolve() == resolved or base.resolve() in chain:
            ring = " -> ".join(map(str, (*chain, resolved, base.resolve())))
            raise ConfigError(content.fault_at(where, f"extends itself: {ring}."))
        laid = merged(laid, _read(base, (*chain, resolved), renamed))
    return merged(laid, content)


def _bases(content: YamlText, folder: Path) -> Iterator[tuple[KeyPath, Path]]:
    """The configs that ``content`` is laid upon, each with the place where it is named."""
    named = content.value.get("extends")
    for index, name in enumerate(named if isinstance(named, list) else [] if named is None else [named]):
        where: KeyPath = ("extends", index) if isinstance(named, list) else ("extends",)
        if not isinstance(name, str):
            raise ConfigError(
                content.fault_at(where, f"extends is {shown(name)}; it must be a path, or a list of paths.")
            )
        base = folder / expand_user(name)
        if not base.is_file():
            raise ConfigError(content.fault_at(where, f"extends {str(name)!r}, but there is no file {base}."))
        yield where, base


def _refuse_swept(overrides: Sequence[str], config: Mapping[str, Any]) -> None:
    """Raise ConfigError for overrides of keys that the sweep sets: they would change nothing."""
    sweep = config.get("sweep")
    matrix = sweep.get("matrix") if isinstance(sweep, Mapping) else None
    swept = {key: entry for entry in (matrix if isinstance(matrix, Mapping) else ()) for key in keys_in(str(entry))}
    faults = []
    for number, override in enumerate(overrides, 1):
        key, _, value = override.partition("=")
        if key.strip() in swept:
            entry = swept[key.strip()]
            like = quote(f"sweep.matrix.{entry}=" + (f"[{value.strip()}]" if entry == key.strip() else "..."))
            message = f"{key.strip()} is an axis of the sweep, which sets it; for other values write --set {like}."
            faults.append(Fault(f"--set #{number}", message=message))
    if faults:
        raise ConfigError(*faults)


def _parts_of(key: str) -> list[str]:
    """The parts of a dotted key; what follows ``sweep.matrix`` is one, the name of an axis."""
    section = "sweep.matrix."
    return ["sweep", "matrix", key.removeprefix(section)] if key.startswith(section) else key.split(".")


def _with_overrides(content: YamlText, overrides: Sequence[str], renamed: list[ReportWarning]) -> YamlText:
    for number, override in enumerate(overrides, 1):
        laid, warnings = with_new_names(_override(override, f"--set #{number}", content.value))
        renamed += warnings
        content = merged(content, laid)
    return content


def _override(text: str, place: str, config: Mapping[str, Any]) -> YamlText:
    key, equals, value = text.partition("=")
    parts = _parts_of(key.strip())
    if not equals or not all(parts):
        raise ConfigError(Fault(place, message=f"{text!r} must be written KEY=VALUE, like retrievers.dense.top_k=20."))
    if value.lstrip().startswith("#"):
        raise ConfigError(Fault(place, message=f"{text!r}: a value that begins with # must stand in quotes."))
    if parts[0] == "extends":
        raise ConfigError(Fault(place, message="extends can only be written in a file; set the keys themselves."))
    retrievers = config.get("retrievers")
    if parts[0] == "retrievers" and len(parts) > 2 and isinstance(retrievers, Mapping) and parts[1] not in retrievers:
        message = (
            f"there is no retriever {parts[1]!r}.{did_you_mean(parts[1], retrievers)} Known: {listed(retrievers)}."
        )
        raise ConfigError(Fault(place, message=message))
    content = parse_yaml(value if value.strip() else "''", place, Path.cwd())
    nested, written = content.value, content.written
    for part in reversed(parts):
        nested, written = {part: nested}, {part: written}
    here = Fault(place)
    places: dict[KeyPath, Fault] = {tuple(parts[:length]): here for length in range(1, len(parts) + 1)}
    places.update({(*parts, *path): here for path in content.places})
    return YamlText(nested, written, places)
