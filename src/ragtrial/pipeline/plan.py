"""The stages that search: the rankings of a setting, under the fingerprint of what changes them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.seals import check_bytes
from ragtrial.cache.upkeep import GROWING
from ragtrial.cache.workspace import DAMAGE
from ragtrial.components.embedders import Embedder
from ragtrial.components.retrievers import Candidates
from ragtrial.components.stores import Index
from ragtrial.config.settings import Setting, failing_as
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import RunError, without_frames
from ragtrial.evaluation.context_sizes import context_sizes, token_counts
from ragtrial.pipeline import ingredients
from ragtrial.pipeline.costs import costs_of
from ragtrial.pipeline.demands import AUDITED_BELOW, Search, demand_of_parts, demands, own_demand, search_for
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.materials import ModellessMaterials, SettingMaterials
from ragtrial.pipeline.measuring import Measuring
from ragtrial.pipeline.names import at_depth
from ragtrial.pipeline.opened import Opened, opened_indexes
from ragtrial.pipeline.outcomes import SettingRankings
from ragtrial.pipeline.part_findings import found_by_parts
from ragtrial.pipeline.searching import Demand, Ranked, found_texts, stages_kept
from ragtrial.pipeline.work import work_of_rankings
from ragtrial.progress import Progress, stage, timed
from ragtrial.rankings import Counts
from ragtrial.records import FoundText, Question, Unit


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
        measuring = Measuring(self.ground, self._progress, self._opened, self.ranked, self.unit, self.seed)
        latency, audited = None, None
        if self.is_measured(setting):
            with timed(timings, "latency"):
                latency = measuring.latency(setting, questions)
        if self._is_audited(setting):
            with timed(timings, "audit"):
                audited = measuring.audited(setting, questions)
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
            costs=costs_of(self.ground, setting, self._kept_by(setting, questions, ranked)),
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
        base = self._ranking_base(setting, questions, search[1])
        found = self._names.deep_enough(base, deepest)
        if found is None:
            # Before any lock is held: whoever waits for a stage holds nothing that its builder needs.
            parts = [self._part(setting, part, questions) for part in setting.parts]
            with self._opened(setting, [setting]) as opened:
                if parts or setting.has_index:
                    # Opening may have built a damaged index again: what it finds goes by another name. And another run
                    # may have made it meanwhile.
                    base = self._ranking_base(setting, questions, search[1])
                    found = self._names.deep_enough(base, deepest)
                if found is None:
                    found = at_depth(base, deepest)
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
        ranked = replace(ranked, stages=frozenset(opened.kept))
        ranked.save(folder, self._known_units(setting))
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

    def _kept_by(self, setting: Setting, questions: Sequence[Question], ranked: Ranked) -> set[tuple[str, str]]:
        """Kind and name of the stages that the retrievers of ``setting`` keep for themselves, as far as it is known.

        These count as used, and so do the rankings of its parts, also where nobody had to read them.
        """
        used = set(ranked.stages) | self._used_by_parts(setting, questions)
        for kind, name in used:
            self._workspace.mark(kind, name)
        return {(kind, name) for kind, name in used if kind not in (*GROWING, "rankings")}

    def _used_by_parts(self, setting: Setting, questions: Sequence[Question]) -> set[tuple[str, str]]:
        """Kind and name of the rankings of the parts of ``setting``, and of what their retrievers keep."""
        found: set[tuple[str, str]] = set()
        asked, demand = setting.wordings(questions), demand_of_parts(setting)
        for part in setting.parts:
            name = self._deep_enough(part, asked, demand)
            if name is not None:
                found.add(("rankings", name))
                with suppress(*DAMAGE):
                    found |= stages_kept(self._workspace.path("rankings", name))
            found |= self._used_by_parts(part, asked)
        return found

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
