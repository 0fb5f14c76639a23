"""A stage turns files into one artifact; this module runs many stages, in order of need and side by side."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

from .artifacts import Artifact, Hashes, Rule, same
from .errors import R2medError

TICK = 0.5  # seconds between two looks at what is running


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a plan.

    `recipe` is asked for only when all `needs` are current, since it hashes their outputs; `build` writes the
    artifact to the path that it is given; `serves` says which older recipe will do as well.
    """

    verb: str
    subject: str
    artifact: Artifact
    recipe: Callable[[], dict]
    build: Callable[[Path], None]
    needs: tuple["Stage", ...] = ()
    serves: Rule = field(default=same)

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"


@dataclass(frozen=True)
class Progress:
    """What the observer of `execute` is told: a stage that ended, or (stage None) that time passes."""

    done: int
    total: int
    running: tuple[Stage, ...]
    stage: Stage | None = None
    seconds: float = 0.0
    built: bool = False


def current(stages: Iterable[Stage], hashes: Hashes) -> dict[Stage, bool]:
    """Whether each stage's output is current, all that it needs being so. Builds nothing."""
    state: dict[Stage, bool] = {}
    for stage in stages:  # in order of need, as a plan lists them
        state[stage] = all(state[need] for need in stage.needs) and _is_current(stage, hashes)
    return state


def _is_current(stage: Stage, hashes: Hashes) -> bool:
    try:
        return stage.artifact.is_current(stage.recipe(), hashes, stage.serves)
    except OSError:  # an input is not there
        return False


def execute(
    stages: list[Stage], threads: int, hashes: Hashes, observe: Callable[[Progress], None] = lambda _: None
) -> dict[Stage, R2medError]:
    """Bring all stages up to date, at most `threads` at once, earlier ones first; return what failed and why.

    A failure keeps only the stages from running that need the failed one. KeyboardInterrupt passes through.
    """
    order = {stage: place for place, stage in enumerate(stages)}
    sorter = TopologicalSorter({stage: stage.needs for stage in stages})
    sorter.prepare()
    ready: set[Stage] = set()
    running: dict[Future, Stage] = {}
    failed: dict[Stage, R2medError] = {}
    done = 0

    def work(stage: Stage) -> tuple[bool, float]:
        began = time.perf_counter()
        built = stage.artifact.make(stage.recipe(), stage.build, hashes, stage.serves)
        return built, time.perf_counter() - began

    pool = ThreadPoolExecutor(threads, thread_name_prefix="stage")
    try:
        while True:
            ready.update(sorter.get_ready())
            for stage in sorted(ready, key=order.__getitem__)[: threads - len(running)]:
                ready.remove(stage)
                running[pool.submit(work, stage)] = stage
            if not running:
                return failed
            finished, _ = wait(running, timeout=TICK, return_when=FIRST_COMPLETED)
            for future in finished:
                stage = running.pop(future)
                try:
                    built, seconds = future.result()
                except R2medError as error:
                    failed[stage] = error
                    continue
                except OSError as error:  # an input vanished, or cannot be read
                    failed[stage] = R2medError(f"{stage}: {error.filename or ''}: {error.strerror or error}")
                    continue
                sorter.done(stage)
                done += 1
                observe(Progress(done, len(stages), tuple(running.values()), stage, seconds, built))
            if not finished:
                observe(Progress(done, len(stages), tuple(running.values())))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        hashes.save()
