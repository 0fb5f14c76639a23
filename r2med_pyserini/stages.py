"""A stage turns files into one artifact; this module runs many stages, in order of need and side by side."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from .artifacts import Artifact, Build, Hashes, Rule, same
from .errors import R2medError, system_error

TICK = 0.5  # seconds between two looks at what is running


def _nothing() -> None:
    """What most stages do afterwards."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a plan.

    `recipe` says what the artifact depends on, and is asked for only when all `needs`, whose outputs it hashes, are
    up to date. `build` writes the artifact to the path that it is given; what `tools` make must be there by then, but
    the artifact does not depend on how they are made (an index with more in it gives the same run). A stage that is
    `on_demand` is carried out only if one that has it among its tools must build. `serves` says which older recipe
    will do as well. Of stages that name the same `resource` one is built at a time. `status` says in a few words how
    far a long build has come, and `afterwards` tidies up once the artifact is in its place.
    """

    verb: str
    subject: str
    artifact: Artifact
    recipe: Callable[[], dict]
    build: Build
    needs: tuple["Stage", ...] = ()
    tools: tuple["Stage", ...] = ()
    on_demand: bool = False
    serves: Rule = field(default=same)
    resource: str | None = None
    status: Callable[[], str] = str
    afterwards: Callable[[], None] = _nothing

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"

    def is_current(self, hashes: Hashes) -> bool:
        """Whether the output is as it should be, all `needs` being so. False if an input is not there."""
        try:
            return self.artifact.is_current(self.recipe(), hashes, self.serves)
        except OSError:
            return False

    def make(self, hashes: Hashes) -> bool:
        """Bring the output up to date; whether it had to be built. Raises R2medError."""
        try:
            recipe = self.recipe()

            def still_true() -> bool:
                return self.recipe() == recipe and all(tool.is_current(hashes) for tool in self.tools)

            built = self.artifact.make(recipe, self.build, hashes, self.serves, still_true)
            self.afterwards()
            return built
        except OSError as error:  # an input vanished, or cannot be read
            raise R2medError(f"{self}: {system_error(error)}") from error


class Meter:
    """How many of how many things are done, for a stage's status."""

    def __init__(self, noun: str) -> None:
        self._noun, self._done, self._total = noun, 0, 0

    def start(self, total: int) -> None:
        """Begin anew."""
        self._done, self._total = 0, total

    def advance(self, more: int) -> None:
        """So many more are done."""
        self._done += more

    def __str__(self) -> str:
        return f"({self._done:,} of {self._total:,} {self._noun})" if self._total else ""


@dataclass(frozen=True)
class Progress:
    """What the observer of `execute` is told: a stage that ended, or (stage None) that time passes."""

    done: int
    total: int
    running: tuple[Stage, ...]
    stage: Stage | None = None
    seconds: float = 0.0
    built: bool = False


DONE, TO_DO, NOT_NEEDED = "done", "to do", "not needed"


def preview(stages: Iterable[Stage], hashes: Hashes) -> dict[Stage, str]:
    """What `execute` would do with each stage: DONE, TO_DO or NOT_NEEDED. Builds nothing."""
    state: dict[Stage, str] = {}
    demanded: set[Stage] = set()
    for stage in stages:  # in order of need, as a plan lists them
        current = all(state[need] == DONE for need in stage.needs) and stage.is_current(hashes)
        state[stage] = DONE if current else TO_DO
        if not current:
            demanded.update(stage.tools)
    return {
        stage: NOT_NEEDED if found == TO_DO and stage.on_demand and stage not in demanded else found
        for stage, found in state.items()
    }


@dataclass(frozen=True)
class Result:
    """What `execute` came to: the stages that are up to date now, and those that failed, with the reason."""

    done: frozenset[Stage]
    failed: dict[Stage, R2medError]


def execute(
    stages: list[Stage], threads: int, hashes: Hashes, observe: Callable[[Progress], None] = lambda _: None
) -> Result:
    """Bring all stages up to date, at most `threads` at once, earlier ones first.

    A failure keeps only the stages from running that need the failed one. KeyboardInterrupt passes through.
    """
    work = _Work(stages, hashes)
    running: dict[Future, Stage] = {}
    pool = ThreadPoolExecutor(threads, thread_name_prefix="stage")
    try:
        while True:
            for stage, job in work.ready(threads - len(running)):
                running[pool.submit(_timed, job)] = stage
            if not running:
                return Result(frozenset(work.done), work.failed)
            finished, _ = wait(running, timeout=TICK, return_when=FIRST_COMPLETED)
            for future in finished:
                stage = running.pop(future)
                try:
                    found, seconds = future.result()
                except R2medError as error:
                    work.failed[stage] = error
                    continue
                if work.ended(stage, found):
                    progress = Progress(*work.count(), tuple(running.values()), stage, seconds, found is _Found.BUILT)
                    observe(progress)
            if not finished:
                observe(Progress(*work.count(), tuple(running.values())))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        hashes.save()


class _Found(Enum):
    """What a job found a stage's artifact to be, or made it."""

    CURRENT, STALE, BUILT = range(3)


_Job = Callable[[], _Found]


def _timed(job: _Job) -> tuple[_Found, float]:
    began = time.perf_counter()
    return job(), time.perf_counter() - began


class _Work:
    """What has been done and what can be done next. Each stage is first looked at, and then, unless current, built."""

    def __init__(self, stages: list[Stage], hashes: Hashes):
        self._stages, self._hashes = stages, hashes
        self._demanded = {stage for stage in stages if not stage.on_demand}
        self._started: set[Stage] = set()
        self._stale: set[Stage] = set()
        self._taken: set[str] = set()  # resources in use
        self.done: set[Stage] = set()
        self.failed: dict[Stage, R2medError] = {}

    def ready(self, limit: int) -> list[tuple[Stage, _Job]]:
        """The next jobs, at most `limit`, earliest stages first.

        Looks, which are quick, come before builds: so the earliest of all stages that want a resource gets it.
        """
        jobs: list[tuple[Stage, _Job]] = []
        for stage in self._stages:
            if len(jobs) < limit and stage in self._demanded - self._started and self.done.issuperset(stage.needs):
                self._started.add(stage)
                jobs.append((stage, partial(self._look, stage)))
        for stage in self._stages:
            if len(jobs) < limit and stage in self._stale and self._can_build(stage):
                self._stale.remove(stage)
                self._taken.update([stage.resource] if stage.resource else [])
                jobs.append((stage, partial(self._build, stage)))
        return jobs

    def _can_build(self, stage: Stage) -> bool:
        return stage.resource not in self._taken and self.done.issuperset(stage.tools)

    def _look(self, stage: Stage) -> _Found:
        stage.artifact.tidy()
        return _Found.CURRENT if stage.is_current(self._hashes) else _Found.STALE

    def _build(self, stage: Stage) -> _Found:
        try:
            return _Found.BUILT if stage.make(self._hashes) else _Found.CURRENT
        finally:
            self._taken.discard(stage.resource)

    def ended(self, stage: Stage, found: _Found) -> bool:
        """Take note of what a job found; whether the stage is done now."""
        if found is _Found.STALE:
            self._stale.add(stage)
            self._demanded.update(stage.tools)
            return False
        self.done.add(stage)
        return True

    def count(self) -> tuple[int, int]:
        """How many stages are done, and how many there are; those not needed are never done."""
        return len(self.done), len(self._stages)
