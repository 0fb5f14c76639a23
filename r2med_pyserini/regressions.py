"""`r2med regressions`: runs every condition that this machine can run as it is, and says why it leaves out the others.

Nothing is fetched but datasets, and no service is asked unless that is wished.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from . import conditions, models, rerankers, weights
from .conditions import Condition
from .encoders.base import Settings
from .experiments import Experiment
from .models import API, ONNX, Model
from .outcome import Observer, Outcome
from .report.grid import grid
from .rerankers import Reranker

GIB = 2**30
BESIDES = 2 * GIB  # that are wanted beside a model's weights: for Java, indexes, and what a batch is worked on
_UNITS = {"M": 10**6, "B": 10**9}
_PARAMETERS = re.compile(r"([0-9.]+)([MB])\b")
_CGROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def run(
    suite: str, slugs: tuple[str, ...], services: bool, settings: Settings, observe: Observer, dry_run: bool = False
) -> Outcome:
    """Run what can be run on a suite; its outcome is that of `Experiment.execute`, after what was left out.

    With `dry_run` the stages are listed, and nothing is done. Raises UsageError, BadInput or MissingData.
    """
    machine = Machine(settings, services)
    every = conditions.load_all(conditions.names())
    left_out = {condition.name: reason for condition in every if (reason := machine.lacks(condition))}
    names = tuple(condition.name for condition in every if condition.name not in left_out)
    experiment = Experiment.prepare(names, False, suite, slugs, settings.threads, encoding=settings)
    said = [_left_out(left_out)] if left_out else []
    if dry_run:
        return Outcome("\n\n".join([*said, "\n".join(experiment.preview())]))
    outcome = experiment.execute(observe)
    return replace(outcome, text="\n\n".join(filter(None, [*said, outcome.text])))


def _left_out(reasons: dict[str, str]) -> str:
    title = f"Left out of {len(conditions.names())} conditions: {len(reasons)}"
    return f"{title}\n\n{grid(('condition', 'why'), reasons.items(), left=(0, 1))}"


def parameters(text: object) -> int | None:
    """How many parameters a fact like "109M" or "7.1B a side" means; None for what says nothing of it."""
    found = _PARAMETERS.match(text) if isinstance(text, str) else None
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def memory() -> int:
    """Bytes of memory that this process may have: the machine's, or the container's if that has fewer."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP:
        with suppress(OSError, ValueError):  # "max": no limit
            limits.append(int(path.read_text(encoding="ascii")))
    return min(limits)


@dataclass(frozen=True)
class Machine:
    """What can be run here, as `settings` say; `services` may be asked if they cost nothing to look for."""

    settings: Settings
    services: bool = False

    def lacks(self, condition: Condition) -> str | None:
        """Why a condition cannot be run here, in a few words; None if it can be."""
        for one in conditions.closure([condition]).values():
            reasons = [
                self._of_encoder(models.load(one.encoder)) if one.encoder else None,
                self._of_reranker(rerankers.load(one.rerank.reranker)) if one.rerank else None,
            ]
            found = next(filter(None, reasons), None)
            if found:
                return found
        return None

    def _of_encoder(self, model: Model) -> str | None:
        if model.loader == API and not self.services:
            return _asks(model.name)
        wanted = weights.wants(model)
        if wanted:
            return f"{model.name}: {wanted}" if model.loader == API else f"{model.name} is not here ({wanted})"
        if model.loader == API:
            return None
        sides = 2 if model.query_id else 1
        return next(self._to_run_here(model, sides), None)

    def _of_reranker(self, reranker: Reranker) -> str | None:
        if reranker.api and not self.services:
            return _asks(reranker.name)
        if not weights.reranker_at_hand(reranker):
            variable = (reranker.api or {}).get("model_variable")
            return f"{reranker.name}: set {variable}" if variable else f"{reranker.name} is not here"
        return None if reranker.api else next(self._to_run_here(reranker, 1), None)

    def _to_run_here(self, model: Model | Reranker, sides: int) -> Iterator[str]:
        """What a model still needs whose files are here."""
        if find_spec("torch") is None:
            yield f"the package torch is not installed: {weights.EXTRA}"
        if model.remote_code and not self.settings.trust_remote_code:
            yield f"{model.name} runs code of its repository: --trust-remote-code"
        count = parameters(model.facts.get("parameters"))
        if count is None:
            return
        where, there = self._room
        wanted = sides * count * self._bytes(model) + BESIDES
        if wanted > there:
            yield f"{model.name} wants about {wanted / GIB:.0f} GiB of memory, {where} has {there / GIB:.0f}"

    @cached_property
    def _room(self) -> tuple[str, int]:
        """What models run on, in words, and the bytes of memory that it has; of several GPUs the smallest one."""
        import torch

        from .encoders import devices

        gpus = [name for name in devices.devices(self.settings.device) if torch.device(name).type == "cuda"]
        if not gpus:
            return "this machine", memory()
        return "a GPU", min(torch.cuda.mem_get_info(name)[1] for name in gpus)

    def _bytes(self, model: Model | Reranker) -> int:
        """Of one weight as it is held: on processors weights are in float32, whatever they are computed in."""
        if getattr(model, "loader", None) == ONNX:
            return 1
        from .encoders import devices

        first = devices.devices(self.settings.device)[0]
        if first == devices.CPU:
            return 4
        return 2 if "16" in devices.precision(model, self.settings.dtype, first) else 4


def _asks(name: str) -> str:
    return f"{name} asks a service: --with-services"
