"""The settings of a config: their parts, shared work, and faults."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.chunkers.base import Chunker
from ragtrial.components.contextual_text import ContextOptions
from ragtrial.components.embedders.base import Embedder
from ragtrial.components.interfaces import REACHING, Ranker
from ragtrial.components.refiners.base import Refiner
from ragtrial.components.user_functions import folders_of
from ragtrial.config.models import ExperimentConfig, effective, scored
from ragtrial.config.strict_yaml import KeyPath
from ragtrial.config.sweep import PlacedFault, SettingNames, SweepOptions
from ragtrial.config.variants import Variant, dropped_options, follow, variants_of
from ragtrial.dataset.chunks import Chunks, uncovered
from ragtrial.engines import Store
from ragtrial.errors import ConfigError, Fault, InputError, ModelNotFoundError, RunError, counted, did_you_mean, listed
from ragtrial.options import LocatedText, Options, dotted, located
from ragtrial.records import Question, ReportWarning

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Setting:
    """One retriever or refiner with everything that reaches it.

    ``entry`` is its name in the config; ``name`` differs where a sweep makes several settings of one entry. ``parts``
    are those whose rankings it refines. ``config`` is the config with the sweep's ``values`` laid over it; of these
    only those are here that reach the setting.
    """

    name: str
    entry: str
    retriever: Ranker
    chunker: Chunker
    context: ContextOptions
    embedder: Embedder
    store: Store
    config: ExperimentConfig = field(repr=False)
    parts: tuple[Setting, ...] = ()
    values: Mapping[str, Any] = field(default_factory=lambda: _NO_VALUES)

    @cached_property
    def depends_on(self) -> frozenset[str]:
        """The sections among chunker, context, embedder and store that its own hits depend on."""
        reach = self.retriever.depends_on
        counted = self.chunker.needs_embedder or self.chunker.counted_by == "embedder"
        return reach | {"embedder"} if "chunker" in reach and counted else reach

    @property
    def has_index(self) -> bool:
        """True if it searches an index of its own vectors."""
        return "store" in self.retriever.depends_on

    @property
    def has_chunks(self) -> bool:
        """True if it ranks chunks of its own chunker."""
        return {"chunker", "context"} <= self.retriever.depends_on

    @property
    def needs_model(self) -> bool:
        """True unless it, and each of its parts, ranks chunks by their words."""
        return any(
            not (part.parts or part.has_chunks) or "embedder" in part.retriever.depends_on
            or part.chunker.needs_embedder or getattr(part.retriever, "model", None) is not None
            for part in self.tree()
        )  # fmt: skip

    @property
    def has_comparable_scores(self) -> bool:
        """True if scores of its hits can be compared between questions."""
        return self.retriever.has_comparable_scores([part.has_comparable_scores for part in self.parts])

    def width(self, depth: int) -> int | None:
        """The search width for ``depth`` hits, if its hits depend on it; see ``Store.width``."""
        return self.retriever.width(self.store, depth)

    @property
    def cuts_documents(self) -> bool:
        """True if its own chunker makes the units that it ranks, or returns."""
        return "chunker" in self.depends_on

    @cached_property
    def ranking_key(self) -> str:
        """Equal for settings whose rankings are the same, however deep they are cut."""
        reach = {name: _all_options(getattr(self, name)) for name in sorted(self.depends_on)}
        if "embedder" in reach and "embedder" not in self.retriever.depends_on:
            reach["embedder"] = _all_options(self.embedder.untruncated)
        own = [self.retriever.hashed_options(), folders_of(self.retriever)]
        return fingerprint([own, reach, [part.ranking_key for part in self.parts]])

    @property
    def key(self) -> tuple[str, int]:
        """Equal for settings that are the same."""
        return self.ranking_key, self.retriever.top_k

    @property
    def depth_of_parts(self) -> int:
        """The number of hits of each part that it looks at."""
        return self.retriever.candidates if isinstance(self.retriever, Refiner) else 0

    def wordings(self, questions: Sequence[Question]) -> Sequence[Question]:
        """The questions for its parts, given ``questions``: all for the first part, then all for the second."""
        if not isinstance(self.retriever, Refiner):
            return []
        worded = [wording for question in questions for wording in self.retriever.wordings(question)]
        return questions if worded == list(questions) else worded

    def tree(self) -> Iterator[Setting]:
        """The setting and all its parts, parts first."""
        for part in self.parts:
            yield from part.tree()
        yield self

    def is_reached(self, axis: str) -> bool:
        """True if the option of the config with that dotted name changes its hits."""
        head, _, rest = axis.partition(".")
        if head in REACHING:
            # A chunker that counts tokens has the model's tokenizer alone.
            is_cut = axis in ("embedder.dimensions", "embedder.cut_to")
            reached = self.retriever.depends_on if is_cut else self.depends_on
            mine = head in reached and getattr(self.retriever, head, None) is None
            return mine or any(part.is_reached(axis) for part in self.parts)
        entry, _, option = rest.partition(".")
        if head == "retrievers" and entry == self.entry:
            return option != "score"
        # How deep a part's ranking is looked at is up to its refiner, wherever it is cut by itself.
        return option not in ("top_k", "score") and any(part.is_reached(axis) for part in self.parts)


def _all_options(options: Options) -> list[Any]:
    """All options that distinguish these from others, as JSON values."""
    return [options.model_dump(mode="json"), folders_of(options)]


@contextmanager
def failing_as(part: Setting) -> Iterator[None]:
    """Put the name of ``part`` before an error raised inside."""
    try:
        yield
    except RunError as error:
        faults = [replace(fault, message=f"its part {part.name!r}: {fault.message}") for fault in error.faults]
        raise RunError(*faults) from error


def setting_of(config: ExperimentConfig, entry: str) -> Setting:
    """The setting of an entry of ``retrievers`` of ``config``, with its parts."""
    retriever = config.retrievers[entry]
    reaching = {section: effective(config, retriever, section) for section in REACHING}
    parts = tuple(setting_of(config, part) for part in retriever.parts)
    return Setting(entry, entry, retriever, config=config, parts=parts, **reaching)


def named_setting(variant: Variant, entry: str, names: SettingNames | None) -> Setting:
    """The setting of an entry of a variant, named after the values that reach it."""
    setting = setting_of(variant.config, entry)
    values = {key: value for key, value in variant.values.items() if setting.is_reached(key)}
    return replace(setting, name=names.name(entry, values) if names else entry, values=values)


def settings_of(config: ExperimentConfig) -> tuple[list[Setting], list[ReportWarning]]:
    """The settings of a config and of its sweep, in their order; of equal settings only the first is kept.

    Raises ConfigError for a sweep of too many settings, for names that come out alike, and for axes that reach none.
    """
    by_key: dict[tuple[str, int], Setting] = {}
    warnings = dict.fromkeys([*config.warnings, *dropped_options(config)])
    names = SettingNames.of(config.sweep) if config.sweep else None
    reaching: set[str] = set()
    for variant in variants_of(config):
        for entry in scored(variant.config):
            setting = named_setting(variant, entry, names)
            reaching |= setting.values.keys()
            first = by_key.setdefault(setting.key, setting)
            if first.name != setting.name:
                once = f"it is run and shown once, as {first.name!r}"
                message = f"setting {setting.name!r} is the same as {first.name!r}; {once}."
                warnings[ReportWarning("equal-settings", message)] = None
    settings, by_name = list(by_key.values()), dict[str, Setting]()
    faults = []
    for setting in settings:  # file systems may not distinguish case
        other = by_name.setdefault(setting.name.casefold(), setting)
        if other is not setting:
            both = f"settings of {other.entry!r} and {setting.entry!r} would be named {setting.name!r}"
            message = f"{both}, and names must differ in more than case, as file names must; rename one."
            faults.append(config.fault_at(("retrievers", setting.entry), message))
    if config.sweep:
        if config.search:  # which tries the values of axes later
            keys = config.sweep.swept_keys()
            reaching |= {key for key in keys if any(setting.is_reached(key) for setting in settings)}
        faults += [config.fault_at(*fault) for fault in _sweep_faults(config.sweep, settings, reaching)]
    ConfigError.raise_any(faults)
    return settings, list(warnings)


def _sweep_faults(sweep: SweepOptions, settings: Sequence[Setting], reaching: Container[str]) -> Iterator[PlacedFault]:
    """The faults of the settings of a sweep, each with its place."""
    places = {key: axis.where for axis in sweep.axes() for key in axis.keys}
    for key in sweep.swept_keys():
        if key not in reaching:
            where = places.get(key, ("sweep", "include"))
            yield where, f"{dotted(where)}: {key} reaches no setting: none is changed by it, or each has its own."
    if len(settings) > sweep.max_settings:
        most = f"max_settings is {sweep.max_settings:,}. Take values out, or raise max_settings"
        yield ("sweep",), f"the sweep comes to {len(settings):,} settings; {most}."


def cutting(settings: Sequence[Setting]) -> list[Setting]:
    """The settings that cut documents, among ``settings`` and all their parts.

    Parts that are not scored are named like `dense of hybrid`; equal parts are listed once.
    """
    of_settings = {setting.ranking_key for setting in settings}
    cutters: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        for part in setting.tree():
            if part is setting:
                cutters[part.name, ""] = part
            elif part.ranking_key not in of_settings:
                cutters.setdefault(("", part.ranking_key), replace(part, name=f"{part.name} of {setting.name}"))
    return [part for part in cutters.values() if part.cuts_documents]


def unheeded(settings: Sequence[Setting], questions: Sequence[Question]) -> Iterator[ReportWarning]:
    """The parts of labels that have no effect: filters that no setting applies, phrasings that none asks."""
    filtered = [question for question in questions if question.where is not None or question.where_document is not None]
    plain = [replace(one, where=None, where_document=None) for one in filtered]
    # It is not known if rankings from elsewhere were filtered.
    blind = [
        one.name for one in settings
        if any(
            not leaf.parts and leaf.retriever.has_latency and _asks_alike(leaf, filtered, plain) for leaf in one.tree()
        )
    ]  # fmt: skip
    if filtered and blind:
        message = (
            f"queries with where or where_document in the labels: {len(filtered):,} of {len(questions):,}; "
            f"{listed(blind)} search without these filters; a dense retriever over a collection heeds them."
        )
        yield ReportWarning("filters-not-heeded", message)
    phrased = [question for question in questions if question.phrasings]
    plain = [replace(one, phrasings=()) for one in phrased]
    if phrased and all(_asks_alike(one, phrased, plain) for setting in settings for one in setting.tree()):
        message = f"queries with phrasings in the labels: {len(phrased):,} of {len(questions):,}, and no setting asks"
        yield ReportWarning("phrasings-not-asked", f"{message} them; a refiner of kind expand does.")


def _asks_alike(setting: Setting, some: Sequence[Question], others: Sequence[Question]) -> bool:
    """True if the setting itself asks the same for each of the two."""
    return list(map(setting.retriever.asked, some)) == list(map(setting.retriever.asked, others))


def length_warnings(setting: Setting, too_long: Mapping[str, int | None]) -> Iterator[ReportWarning]:
    """A warning for each kind of text that the model of ``setting`` does not read to the end."""
    for what, count in too_long.items():
        if count:
            yield ReportWarning.of_verdict(
                "too-long",
                f"{setting.name}: {what} longer than the {setting.embedder.max_tokens()} tokens that the model reads: "
                f"{count:,}; the rest of each is ignored. Use smaller chunks, or a model that reads more.",
            )


def uncovered_warnings(setting: Setting, chunks: Chunks) -> Iterator[ReportWarning]:
    """A warning if ``chunks``, the chunks of ``setting``, leave text out, as only some chunkers may."""
    left_out = uncovered(chunks) if setting.chunker.may_leave_out else None
    if left_out and left_out.uncovered:
        documents, share = counted(len(left_out.documents), "document"), left_out.uncovered / left_out.characters
        yield ReportWarning(
            "uncovered-text",
            f"{setting.name}: {left_out.uncovered:,} of {left_out.characters:,} characters ({share:.1%}, without white "
            f"space) are in no chunk and cannot be found; they are in {documents}, {left_out.documents[0]!r} first.",
        )


def chosen_settings(settings: Iterable[Setting], only: Collection[str] | None) -> list[Setting]:
    """``settings``, or ``only`` the settings of these names. Raises ConfigError for names that none has."""
    known = {setting.name: setting for setting in settings}
    missing = [name for name in only or () if name not in known]
    if missing:
        among = f"Known: {listed(known)}."
        raise ConfigError(*(f"there is no setting {name!r}.{did_you_mean(name, known)} {among}" for name in missing))
    return [one for one in known.values() if only is None or one.name in only]


_NAMING = ("model", "function", "tokenizer_model")
"""The options that name files, models and functions, which may be missing."""


@dataclass
class SettingFaults:
    """Collects what ``of`` finds; a fault of several settings is one fault."""

    unchecked: dict[Setting, None] = field(default_factory=dict)
    """The settings of which not all could be checked without a model."""

    _kinds: set[type[InputError]] = field(default_factory=set)
    _wrong: dict[str, tuple[Fault, dict[str, None]]] = field(default_factory=dict)
    _to_fetch: dict[str, tuple[Fault, dict[str, None]]] = field(default_factory=dict)
    """Faults by what is said, with the settings that have them; without these if a file is at fault."""

    @contextmanager
    def of(self, setting: Setting) -> Iterator[None]:
        """Keep an InputError that is raised inside as one of ``setting``."""
        try:
            yield
        except InputError as error:
            faults = self._wrong
            if isinstance(error, ModelNotFoundError) and error.may_be_fetched:
                faults = self._to_fetch
                self.unchecked[setting] = None
            else:
                self._kinds.add(type(error))
            for fault in error.faults:
                fault = at_option(setting.config, fault)
                message = fault.message.removeprefix(f"{setting.name}: ")
                if fault.file:
                    faults.setdefault(str(fault), (fault, {}))
                else:
                    placed = setting.config.fault_at(_place(setting, message), message)
                    faults.setdefault(message, (placed, {}))[1][setting.entry] = None

    def add(self, fault: Fault) -> None:
        """Keep a fault that is of no setting: something that is named does not exist."""
        self._kinds.add(ModelNotFoundError)
        self._wrong.setdefault(str(fault), (fault, {}))

    def __bool__(self) -> bool:
        return bool(self._wrong)

    @property
    def faults(self) -> list[Fault]:
        """The faults, in the order in which they were found."""
        return _with_settings(self._wrong)

    @property
    def to_fetch(self) -> list[str]:
        """Models that a run must fetch from the hub, and the checks that need them."""
        return [fault.message for fault in _with_settings(self._to_fetch)]

    def raise_any(self) -> None:
        """Raise InputError with all faults, if there are any; of the kind that they all are, if they are of one."""
        if self._wrong:
            kind = self._kinds.copy().pop() if len(self._kinds) == 1 else InputError
            raise kind(*self.faults)


def _with_settings(faults: Mapping[str, tuple[Fault, Mapping[str, None]]]) -> list[Fault]:
    named = []
    for fault, settings in faults.values():
        of = f"setting{'s' if len(settings) > 1 else ''} {listed(map(repr, settings), 5)}: " if settings else ""
        named.append(replace(fault, message=f"{of}{fault.message}"))
    return named


@contextmanager
def at_options(config: ExperimentConfig) -> Iterator[None]:
    """An InputError about a path that is not there is one about the option that names it."""
    try:
        yield
    except InputError as error:
        raise type(error)(*(at_option(config, fault) for fault in error.faults)) from None


def at_option(config: ExperimentConfig, fault: Fault) -> Fault:
    """``fault``; if it is about a path that is not there and that the config names, its place is there."""
    if not fault.file or fault.line or Path(fault.file).exists():
        return fault
    for path, text in _texts(config.content.value, ()):
        if located(text) == fault.file:
            return config.fault_at(path, f"{fault.file}: {fault.message}")
    return fault


def _texts(content: Any, path: KeyPath) -> Iterator[tuple[KeyPath, LocatedText]]:
    """The texts of a config's file, each with its path of keys."""
    if isinstance(content, LocatedText) and content.strip():
        yield path, content
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        yield from _texts(value, (*path, key))


def _place(setting: Setting, message: str) -> KeyPath:
    """The path of the option that names what ``message`` is about; else the entry of the setting."""
    entry: KeyPath = ("retrievers", setting.entry)
    sections = (entry, ("embedder",), ("chunker",))
    for section in sections:
        for path, text in _texts(follow(setting.config.content.value, section), section):
            names = text.partition(":")[0], located(text)
            if path[-1] in _NAMING and any(name in message for name in names):
                return path
    return entry
