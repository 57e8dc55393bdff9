"""The stages that search: rankings, latency and audit of a setting, each under the fingerprint of what changes it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from ragtrial import ingredients
from ragtrial.context_sizes import context_sizes, token_counts
from ragtrial.costs import costs_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.demands import AUDITED_BELOW, Search, demand_of_parts, demands, exact_twin, own_demand, search_for
from ragtrial.drilldown import FoundText
from ragtrial.embedders import Embedder
from ragtrial.errors import RunError, without_frames
from ragtrial.grading import Unit
from ragtrial.ground import Ground
from ragtrial.latency import measure_latency
from ragtrial.materials import ModellessMaterials, SettingMaterials
from ragtrial.names import at_depth
from ragtrial.opened import Opened, opened_indexes
from ragtrial.outcomes import Audited, SettingRankings
from ragtrial.part_findings import found_by_parts
from ragtrial.progress import Progress, stage, timed
from ragtrial.rankings import Counts, Floats
from ragtrial.records import Question
from ragtrial.retrievers import Candidates
from ragtrial.searching import Demand, Ranked, found_texts, stages_kept
from ragtrial.setting import Setting, failing_as
from ragtrial.storage.arrays import array_digest, read_array, write_array
from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.storage.seals import check_bytes
from ragtrial.storage.upkeep import GROWING
from ragtrial.storage.workspace import DAMAGE
from ragtrial.stores import Index
from ragtrial.stores.exact import ExactStore
from ragtrial.work import work_of_audit, work_of_latency, work_of_rankings

T = TypeVar("T")


class Plan:
    """Makes stages and keeps them: what is finished is never made again, here or in another run.

    Each ranking is made once, as deep as any of ``settings`` needs it. ``unit`` is what rankings are of: documents,
    or, for passages in them, chunks. ``latency`` measures single queries; ``audit`` compares with exact search also
    indexes of many vectors. The sizes of contexts are counted in tokens of ``counted_by``, so that they are the same
    for all settings; by default of each setting's own embedder.
    """

    def __init__(
        self,
        ground: Ground,
        settings: Sequence[Setting],
        progress: Progress,
        *,
        unit: Unit = "document",
        counted_by: Embedder | None = None,
        latency: bool = False,
        audit: bool = False,
        seed: int = 0,
    ) -> None:
        self.ground = ground
        self.unit: Unit = unit
        self._counted_by = counted_by
        self._names = ground.names
        self._workspace = ground.workspace
        self._progress = progress
        self.latency = latency
        self.audit = audit
        self.seed = seed
        self._settings = settings
        self._failed: dict[str, Exception] = {}
        self._of_parts: dict[tuple[Search, str], Candidates] = {}
        self._made_here: set[str] = set()
        """The rankings that this run has made: what was skipped in them was just asked."""
        self._at_hand: dict[str, Ranked] = {}
        """Rankings that were made just now, by name, until they are asked for: they need not be read back."""

    @cached_property
    def demands(self) -> dict[Search, Demand]:
        """How deep each search must go."""
        return demands(self._settings)

    def rankings(self, setting: Setting, questions: Sequence[Question]) -> SettingRankings:
        """The ranked documents, or chunks, of ``setting`` for ``questions``.

        Raises RunError if a stage fails; the stages before it are kept.
        """
        timings: dict[str, float] = {}
        self._make_ground(setting, questions, timings)
        with timed(timings, "retrieval"):
            ranked = self.ranked(setting, questions, own_demand(setting))
            tokens = self._tokens(setting, ranked)
        latency, audited = None, None
        if self.is_measured(setting):
            with timed(timings, "latency"):
                latency = self._measured(setting, questions)
        if self._is_audited(setting):
            with timed(timings, "audit"):
                audited = self._audited(setting, questions)
        chunks = self.ground.chunks(setting) if setting.has_index else None
        index = self.ground.index(setting, chunks) if chunks else None
        base = self._names.base(setting, builds=False)
        return SettingRankings(
            setting=setting,
            fingerprint=fingerprint(["setting", base, setting.retriever.top_k, self.unit]),
            chunks=ranked.units,
            are_all=ranked.units.name in self._known_units(setting),
            retrieved=ranked.retrieved,
            skipped=ranked.skipped,
            facts=ranked.facts,
            sizes=context_sizes(ranked.units, ranked.retrieved.units, tokens),
            index=index.description if index else {},
            health=self.ground.embeddings(setting, chunks).health if chunks else None,
            too_long=self.ground.too_long(setting, [question.text for question in questions]) if chunks else {},
            timings=timings,
            latency=latency,
            audited=audited,
            costs=costs_of(self.ground, setting, self._kept_by(setting, questions, own_demand(setting))),
            parts=tuple(found_by_parts(self.ground, setting, questions, self._found)),
        )

    def _found(self, part: Setting, asked: Sequence[Question], demand: Demand) -> Candidates | None:
        search = search_for(part, demand)
        key = search, self._names.asked_name(part, asked)
        if key not in self._of_parts and self._deep_enough(part, asked, demand):
            self._of_parts[key] = self.ranked(part, asked, self.demands[search]).candidates
        return self._of_parts.get(key)

    def forget_failures(self) -> None:
        """Let what failed be tried again."""
        self._failed.clear()

    def materials(self, setting: Setting, *, loads_models: bool = True) -> SettingMaterials:
        """What the retriever of ``setting`` may look at before anything is searched: its index is not open."""

        def no_index() -> Index:
            raise RunError(f"setting {setting.name!r}: its index is open only while it is searched.")

        kind = SettingMaterials if loads_models else ModellessMaterials
        return kind(self.ground, setting, self._progress, no_index)

    def search(self, setting: Setting, text: str) -> list[FoundText]:
        """What ``setting`` finds for one text that no label knows."""
        with self._opened(setting) as opened:
            return found_texts(opened.ranked([Question(text)], own_demand(setting)), self.ground.library)

    def ranked(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> Ranked:
        """The rankings of ``setting``, cut at ``demand``; made as deep as anything needs them where they are not there.

        What failed once fails again, without being tried: several settings may be made of it. Asked something else, as
        the part of a refiner is, it may do better.
        """
        asked = fingerprint([setting.ranking_key, self._names.asked_name(setting, questions)])
        if asked in self._failed:
            raise without_frames(self._failed[asked])
        try:
            return self._ranked(setting, questions, demand)
        except MemoryError:
            raise
        except Exception as error:
            self._failed[asked] = without_frames(error)
            raise

    def _ranked(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> Ranked:
        known = self._known_units(setting)
        name = ""

        def make() -> str:
            nonlocal name
            name = self._made(setting, questions, demand)
            return name

        def read(folder: Path) -> Ranked:
            at_hand = self._at_hand.pop(folder.name, None)
            if at_hand is not None:
                return at_hand
            check_bytes(folder)  # all of it is read anyway, and a count that changed would tell nobody
            return Ranked.load(folder, self.ground.library, known)

        found = self._workspace.read("rankings", make, read)
        while found.skipped.any() and name not in self._made_here:  # by another run: it may be answered now
            self._made_here.add(name)
            self._workspace.drop("rankings", name)
            found = self._workspace.read("rankings", make, read)
        return found.cut(demand)

    def _made(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> str:
        """The name of rankings that are as deep as ``demand`` at least, and there."""
        search = search_for(setting, demand)
        deepest = self.demands[search]
        found = self._deep_enough(setting, questions, demand)
        if found is None:
            # Before any lock is held: whoever waits for a stage holds nothing that its builder needs.
            parts = [self._part(setting, part, questions) for part in setting.parts]
            with self._opened(setting, [setting]) as opened:
                found = self._deep_enough(setting, questions, demand)  # another run may have made it meanwhile
                if found is None:
                    # Opening may have built a damaged index again: what it finds goes by another name.
                    found = at_depth(self._ranking_base(setting, questions, search[1]), deepest)
                    build = partial(self._build, found, opened, setting, questions, parts, deepest)
                    made_of = partial(ingredients.of_rankings, self._names, setting, questions, self.unit)
                    self._made_here.add(found)
                    self._workspace.stage("rankings", found, f"rankings of {setting.name}", build, made_of)
        self._workspace.mark("rankings", found)
        return found

    def _build(
        self,
        name: str,
        opened: Opened,
        setting: Setting,
        questions: Sequence[Question],
        parts: Sequence[Candidates],
        demand: Demand,
        folder: Path,
    ) -> None:
        """Search, and keep the rankings in ``folder``, with the names of what the retriever keeps for itself."""
        start = time.perf_counter()
        with stage(self._progress, f"retrieval ({setting.name})", len(questions), "queries") as progress:
            if setting.parts:
                ranked = opened.refined(questions, parts, demand)
                progress.advance(len(questions))
            else:
                ranked = opened.retrieved(questions, demand, progress.advance)
        work, amount = work_of_rankings(setting, questions)
        self._workspace.rates.note(work, amount, time.perf_counter() - start)
        ranked.save(folder, self._known_units(setting), opened.kept)
        self._at_hand[name] = ranked

    def _part(self, setting: Setting, part: Setting, questions: Sequence[Question]) -> Candidates:
        """The rankings of a part, for what it is asked, cut at what is looked at of them."""
        with failing_as(part):
            return self.ranked(part, setting.wordings(questions), demand_of_parts(setting)).candidates

    def _deep_enough(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> str | None:
        """The name of finished rankings for ``demand``, as deep as anything needs them."""
        search = search_for(setting, demand)
        return self._names.deep_enough(self._ranking_base(setting, questions, search[1]), self.demands[search])

    def _ranking_base(self, setting: Setting, questions: Sequence[Question], width: int | None) -> str:
        """What tells rankings from others, but how deep they are; what it hangs on is made."""
        self.ground.stand(setting)
        return self._names.rankings(setting, questions, self.unit, width)

    def _kept_by(self, setting: Setting, questions: Sequence[Question], demand: Demand) -> set[tuple[str, str]]:
        """Kind and name of the stages that the retrievers of ``setting`` keep for themselves, as far as it is known.

        These count as used, and so do the rankings of its parts, also where nobody had to read them.
        """
        found: set[tuple[str, str]] = set()
        name = self._deep_enough(setting, questions, demand)
        if name is not None:
            with suppress(*DAMAGE):
                found |= stages_kept(self._workspace.path("rankings", name))
            for kind, used in [("rankings", name), *found]:
                self._workspace.mark(kind, used)
        for part in setting.parts:
            found |= self._kept_by(part, setting.wordings(questions), demand_of_parts(setting))
        return {(kind, kept) for kind, kept in found if kind not in GROWING}

    def _known_units(self, setting: Setting) -> Mapping[str, Chunks]:
        """The chunks that are there anyway, by name: those of all that ``setting`` is made of."""
        made = [self.ground.chunks(one) for one in setting.tree() if "chunker" in one.retriever.reached_by]
        return {chunks.name: chunks for chunks in made}

    def _make_ground(self, setting: Setting, questions: Sequence[Question], timings: dict[str, float]) -> None:
        """Make what stands under the searches of ``setting`` and of its parts, and note how long that takes."""
        for one in setting.tree():
            if "embedder" in one.retriever.reached_by:
                self._workspace.mark("vectors", self.ground.embedder(one.embedder).path.stem)
            if not one.has_index:
                continue
            with nullcontext() if one is setting else failing_as(one):
                with timed(timings, "chunks"):
                    chunks = self.ground.chunks(one)
                    self.ground.too_long(one, [question.text for question in questions])
                with timed(timings, "embeddings"):
                    self.ground.embeddings(one, chunks)
                with timed(timings, "index"):
                    self.ground.index(one, chunks)

    def is_measured(self, setting: Setting) -> bool:
        """Whether the latency of ``setting`` is asked for and can be told."""
        return self.latency and all(part.retriever.has_latency for part in setting.tree())

    def _is_audited(self, setting: Setting) -> bool:
        is_approximate = setting.has_index and not setting.store.is_exact
        return is_approximate and (self.audit or len(self.ground.chunks(setting)) < AUDITED_BELOW)

    @contextmanager
    def _opened(
        self, setting: Setting, searched: Sequence[Setting] | None = None, *, is_fresh: bool = False
    ) -> Iterator[Opened]:
        """``setting`` at work, with the indexes of those that are ``searched``: all of its parts, unless given."""
        with opened_indexes(self.ground, list(setting.tree()) if searched is None else searched) as indexes:
            yield Opened(self.ground, setting, self.unit, self._progress, indexes, is_fresh=is_fresh)

    def _tokens(self, setting: Setting, ranked: Ranked) -> Counts | None:
        """Tokens of each unit that was found, in the shape of the rankings; None without a tokenizer."""
        tokenizer = self.ground.embedder(self._counted_by or setting.embedder).tokenizer
        if tokenizer is None:
            return None
        # By what was found: rankings of one name may be others when they are made again, as of skipped questions.
        found = ranked.retrieved.units
        content = [list(found.shape), array_digest(found), ranked.units.name]
        name = fingerprint(["sizes", content, tokenizer.fingerprint])

        def build(folder: Path) -> None:
            write_array(folder / "tokens.npy", token_counts(ranked.units, ranked.retrieved.units, tokenizer))

        what = f"sizes of what {setting.name} finds"
        return self._workspace.load("sizes", name, what, build, lambda folder: read_array(folder / "tokens.npy"))

    def _measured(self, setting: Setting, questions: Sequence[Question]) -> dict[str, Any] | None:
        """How long single queries take, or took when it was measured."""

        def name() -> str:
            self.ground.stand(setting)
            return self._names.latency(setting, questions, self.unit, self.seed)

        def build(opened: Opened, folder: Path) -> None:
            start, demand = time.perf_counter(), own_demand(setting)
            with stage(self._progress, f"latency ({setting.name})"):
                latency = measure_latency(lambda one: opened.ranked([one], demand), questions, self.seed)
            write_text(folder / "latency.json", json.dumps(latency))
            asked = latency["n"] if latency else 0
            self._workspace.rates.note(work_of_latency(setting), asked, time.perf_counter() - start)

        def read(folder: Path) -> dict[str, Any] | None:
            latency: dict[str, Any] | None = json.loads((folder / "latency.json").read_text())
            if latency is not None and not isinstance(latency, dict):
                raise ValueError("it is no measurement")
            return latency

        return self._searched("latency", name, setting, build, read)

    def _audited(self, setting: Setting, questions: Sequence[Question]) -> Audited:
        """What the index of ``setting`` is compared with."""
        chunks = self.ground.chunks(setting)

        def build(opened: Opened, folder: Path) -> None:
            with stage(self._progress, f"reach ({setting.name})", len(chunks), "vectors"):
                start = time.perf_counter()
                unreachable = opened.index().unreachable()
                self._workspace.rates.note(work_of_audit(setting), len(chunks), time.perf_counter() - start)
            write_text(folder / "unreachable.json", json.dumps(unreachable))

        def read(folder: Path) -> int:
            return int(json.loads((folder / "unreachable.json").read_text()))

        def name() -> str:
            self.ground.stand(setting)
            return self._names.unreachable(setting)

        unreachable = self._searched("reach", name, setting, build, read)
        exact = self.ranked(exact_twin(setting), questions, own_demand(setting)).retrieved
        return Audited(exact, self._exact_scores(setting, chunks, questions), unreachable)

    def _exact_scores(self, setting: Setting, chunks: Chunks, questions: Sequence[Question]) -> Floats:
        """The exact scores of the chunks that ``setting`` found, shape (queries, depth), NaN at the padding."""

        def build(folder: Path) -> None:
            vectors = self.ground.embedder(setting.embedder).embed_queries([question.text for question in questions])
            units = self.ranked(setting, questions, own_demand(setting)).retrieved.units
            index = ExactStore(space=setting.store.space).open(self.ground.vectors(setting, chunks), folder)
            write_array(folder / "scores.npy", index.scores_of(vectors, units))

        self.ground.stand(setting)
        name = self._names.rescored(setting, questions, self.unit)
        what = f"exact scores of {setting.name}"
        return self._workspace.load("rescored", name, what, build, lambda folder: read_array(folder / "scores.npy"))

    def _searched(
        self,
        kind: str,
        name: Callable[[], str],
        setting: Setting,
        build: Callable[[Opened, Path], None],
        read: Callable[[Path], T],
    ) -> T:
        """What is kept of a stage that is made with the setting at work; one that cannot be read is made once again."""

        def make() -> str:
            if not self._workspace.has(kind, name()):
                # Indexes are locked before the stage is: whoever waits for a stage holds nothing its builder needs.
                with self._opened(setting, is_fresh=kind == "latency") as opened:
                    if not self._workspace.has(kind, name()):  # another run may have made it meanwhile
                        self._workspace.stage(kind, name(), f"{kind} of {setting.name}", partial(build, opened))
            self._workspace.mark(kind, name())
            return name()

        return self._workspace.read(kind, make, read)
