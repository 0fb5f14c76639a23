"""The command that encodes ahead of time: a whole suite, or one of several shares of the work."""

import re
from collections.abc import Callable

from . import conditions, encoders, models
from .collection import read_health
from .context import Context
from .encoded_stages import SIDES, job, truncations
from .encoders.base import Settings
from .errors import R2medError, UsageError, system_error
from .models import DOCUMENT, Model
from .outcome import Observer, Outcome, messages
from .paths import Collection
from .plan import Plan, prepare
from .suggest import did_you_mean
from .suites import Dataset
from .vectors import make_parts, share

Tell = Callable[[str, int, int], None]  # what is being encoded, how many texts are done, of how many
_PART = re.compile(r"(\d{1,6})/(\d{1,6})")


def part(text: str) -> tuple[int, int]:
    """`2/8` -> (2, 8): the second of eight shares. Raises UsageError."""
    found = _PART.fullmatch(text)
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {text}: I/N is wanted, with I from 1 to N, such as 2/8")
    return number, of


def chosen(names: tuple[str, ...]) -> list[Model]:
    """The models that are named, or that the named conditions use; once each. Raises UsageError."""
    found: dict[str, Model] = {}
    for name in names:
        if name in models.names():
            found[name] = models.load(name)
            continue
        if name not in conditions.names() and not name.endswith((".yaml", ".yml")):
            known = (*models.names(), *conditions.names())
            raise UsageError(f"no encoder and no condition {name!r}{did_you_mean(name, known)}")
        encoder = conditions.load(name).encoder
        if encoder is None:
            raise UsageError(f"condition {name} has no encoder of its own; there is nothing to encode")
        found[encoder] = models.load(encoder)
    if not found:
        raise UsageError("name one or more encoders, or conditions (`r2med list` shows them)")
    return list(found.values())


def run(
    names: tuple[str, ...],
    suite: str,
    slugs: tuple[str, ...],
    settings: Settings,
    share: str | None,
    observe: Observer,
    tell: Tell,
) -> Outcome:
    """Encode documents and queries, or of the documents and queries one share (`2/8`), which later commands find.

    Raises UsageError or MissingData.
    """
    wanted, mine = chosen(names), part(share) if share else None
    for model in wanted:
        encoders.check(model, settings)
    encoders.check_device(settings)
    plan = prepare(suite, slugs, settings.threads, encoding=settings, encode=() if mine else wanted)
    result = plan.execute(observe)
    if mine is None:
        done = [stage for stage in plan.only("encode") if stage in result.done]
        notes = [f"Note: {text}" for text in truncations(done)]
        return Outcome("\n".join([*notes, *(str(stage.artifact.path) for stage in done)]), errors=messages(result))
    if result.failed:
        return Outcome(errors=messages(result))
    return _share(plan, wanted, slugs, mine, tell)


def _share(plan: Plan, wanted: list[Model], slugs: tuple[str, ...], mine: tuple[int, int], tell: Tell) -> Outcome:
    context, lines, errors = plan.context, [], []
    for model in wanted:
        for dataset in plan.suite.select(slugs):
            for side, noun in SIDES.items():
                name = context.subject(dataset, f"{model.name} {noun}")
                try:
                    made = _make(context, dataset, model, side, name, mine, tell)
                except OSError as error:
                    errors.append(f"{name}: {system_error(error)}")
                    continue
                except R2medError as error:
                    errors.append(f"{name}: {error}")
                    continue
                lines.append(f"{name}: {made} shards made" if made else f"{name}: nothing to do")
    return Outcome("\n".join(lines), errors=errors)


def _make(
    context: Context, dataset: Dataset, model: Model, side: str, name: str, mine: tuple[int, int], tell: Tell
) -> int:
    files = context.workspace.collection(context.suite.name, dataset.slug)
    health = read_health(Collection(files.root))
    total, done = share(health["documents" if side == DOCUMENT else "queries"], mine), 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        tell(name, done, total)

    return make_parts(job(context, dataset, model, side), context.encoders, advance, mine)
