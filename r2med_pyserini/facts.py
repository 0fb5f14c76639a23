"""What the descriptions of encoders (models.yaml) and of rerankers (rerankers.yaml) have in common.

Names, pinned revisions, task sets (tasks.yaml), services, and facts for people with their sources.
"""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from . import suites
from .errors import shown
from .paths import PACKAGE
from .suggest import did_you_mean
from .yamlfile import Reader

TASKS_FILE = PACKAGE / "tasks.yaml"
OTHER = "other"  # in a task set: any dataset that is not one of the eight
TASK = "{task}"  # in a prompt: where the instruction for the dataset goes

FLOAT16, BFLOAT16 = "float16", "bfloat16"
HALVES = (FLOAT16, BFLOAT16)  # BFLOAT16 where FLOAT16 overflows (T5, Gemma, Qwen)
DTYPES = ("float32", *HALVES, "int8")
FACTS = ("architecture", "parameters", "licence")  # what `facts` may say, besides `unconfirmed`

TaskSet = Mapping[str, str]  # dataset, or OTHER -> instruction

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_REVISION = re.compile(r"[0-9a-f]{40}")


def instruction(tasks: TaskSet, dataset: str) -> str:
    """What a model is told of a dataset."""
    return tasks.get(dataset, tasks[OTHER])


def server(api: Mapping | None) -> str | None:
    """The address that the environment names for a service, without a password; None for the service's own."""
    named = os.environ.get(api["base_url_variable"], "").strip().rstrip("/") if api else ""
    place = ""
    with suppress(ValueError):  # of no address at all; who asks the service says so
        place = urlsplit(named).netloc
    address = named.replace(place, place.rpartition("@")[2], 1)
    return address if api and address not in ("", api["base_url"]) else None


def described(reader: Reader, value: object, kind: str) -> dict[str, object]:
    """What a file describes: name -> description, for all names that are good ones. `kind` says of what, for faults."""
    if not isinstance(value, dict):
        reader.fault(f"a mapping from names to {kind}s is wanted, not {shown(value)}")
        return {}
    found = {}
    for name, description in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            reader.fault(f"{kind} {shown(name)}: a name consists of a to z, digits, . _ and -")
        else:
            found[name] = description
    return found


def task_sets(reader: Reader, value: object) -> dict[str, TaskSet]:
    """The task sets of tasks.yaml, by name; each must have an instruction for the eight datasets and for OTHER."""
    if not isinstance(value, dict):
        reader.fault(f"a mapping from names to task sets is wanted, not {shown(value)}")
        return {}
    wanted = (*suites.slugs(), OTHER)
    found = {str(name): reader.mapping(tasks, str(name), wanted, wanted) for name, tasks in value.items()}
    for name, tasks in found.items():
        for dataset, task in tasks.items():
            word(reader, task, f"{name}: {dataset}")
    return found


def word(reader: Reader, value: object, name: str) -> bool:
    """Whether `value` is a text that says something; a fault if not."""
    good = isinstance(value, str) and bool(value.strip())
    if not good:
        reader.fault(f"{name} is {shown(value)}; a text is wanted")
    return good


def words(reader: Reader, value: object, name: str) -> list[str]:
    """The texts of a list; what is none is a fault."""
    if not isinstance(value, list):
        reader.fault(f"{name} is {shown(value)}; a list of texts is wanted")
        return []
    return [entry for entry in value if word(reader, entry, f"{name}: an entry")]


def for_people(reader: Reader, name: str, top: Mapping, required: Collection[str], keys: Collection[str]) -> dict:
    """The parts `facts`, `source` and `note` of a description as one mapping, which always has `unconfirmed`.

    A fact that `unconfirmed` names may be null; `keys` are those that it may name.
    """
    given = reader.mapping(top.get("facts", {}), f"{name}: facts", (*FACTS, "unconfirmed"), required)
    unconfirmed = words(reader, given.get("unconfirmed", []), f"{name}: facts: unconfirmed")
    for key in unconfirmed:
        if key not in keys:
            reader.fault(f"{name}: facts: unconfirmed: no key {key!r}{did_you_mean(key, keys)}")
    for key in FACTS:
        if key in given and not (given[key] is None and key in unconfirmed):
            word(reader, given[key], f"{name}: facts: {key}")
    if "source" in top and not words(reader, top["source"], f"{name}: source"):
        reader.fault(f"{name}: source: where the facts are from is wanted")
    if "note" in top:
        word(reader, top["note"], f"{name}: note")
    return {**given, "unconfirmed": unconfirmed, **{key: top[key] for key in ("source", "note") if key in top}}


def check_revisions(
    reader: Reader, name: str, parts: Mapping, keys: Collection[str], unconfirmed: Collection[str]
) -> None:
    """Whether the revisions among `parts` pin one: 40 hexadecimal digits, or null where `unconfirmed` names it."""
    for key in keys:
        revision = parts.get(key)
        unpinned = revision is None and key in unconfirmed
        if key in parts and not unpinned and not (isinstance(revision, str) and _REVISION.fullmatch(revision)):
            hint = " (null only where `unconfirmed` names it)" if revision is None else ""
            reader.fault(f"{name}: {key} is {shown(revision)}; 40 hexadecimal digits are wanted{hint}")
