"""Writing the scores of a complete run into a condition's YAML file: later runs are held against them."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version

import yaml

from . import __version__
from .artifacts import replace_text
from .conditions import Condition, Recorded, parse
from .errors import BadInput
from .evaluation import Scores
from .jvm import anserini_version
from .specs import FAISS_FLAT, FAISS_HNSW

DIGITS = 4
_KEY = re.compile(r"^recorded:.*\Z", re.MULTILINE | re.DOTALL)
_LATER_KEY = re.compile(r"^\w+:", re.MULTILINE)


def made_with(conditions: Iterable[Condition]) -> dict[str, str]:
    """The versions of what scores depend on: those of a condition and of what it is made from."""
    found = {"r2med-pyserini": __version__}
    for condition in conditions:
        if condition.encoder or condition.rerank:
            found |= {name: version(name) for name in ("torch", "transformers")}
        if condition.index and condition.index.kind in (FAISS_FLAT, FAISS_HNSW):
            found["faiss"] = version("faiss-cpu")
        elif condition.index:
            found["anserini"] = anserini_version()
    return found


def block(recorded: Mapping[str, Recorded]) -> str:
    """The `recorded:` block of a condition file."""
    lines = ["recorded:"]
    for suite, record in recorded.items():
        lines += [
            f"  {_key(suite)}:",
            f"    with: {_flow(record.made_with)}",
            f"    data: {_flow(record.data)}",
            "    scores:",
        ]
        lines += [f"      {_key(dataset)}: {_flow(figures)}" for dataset, figures in record.scores.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A name as YAML reads it back: `on`, `yes` and `123` in quotes."""
    return yaml.safe_dump(name, default_flow_style=True).splitlines()[0]


def _flow(mapping: Mapping) -> str:
    return yaml.safe_dump(dict(mapping), default_flow_style=True, sort_keys=False, width=10_000).strip()


def figures(scores: Scores) -> dict[str, float]:
    """The means of a run as they are recorded: to four decimals."""
    return {measure: round(value, DIGITS) for measure, value in scores.mean.items()}


def rewrite(text: str, where: str, recorded: Mapping[str, Recorded]) -> str:
    """A condition file's text with its `recorded:` block, which is the last key, replaced or added.

    Raises BadInput if another key follows it, which would be lost.
    """
    found = _KEY.search(text)
    kept = text[: found.start()] if found else text if text.endswith("\n") else f"{text}\n"
    if found and _LATER_KEY.search(found.group(), len("recorded:")):
        raise BadInput(f"{where}: `recorded:` must be the last key of the file; move it to the end")
    if found and "#" in found.group():
        raise BadInput(f"{where}: there is a comment in or after `recorded:`, which would be lost; move it up")
    return kept + block(recorded)


def write(condition: Condition) -> None:
    """Put a condition's recorded figures into its file; either the old or the new text stands there, never a part.

    Raises BadInput if the file has a form to which the block cannot be added, and OSError.
    """
    path = condition.file.resolve()
    old = path.read_bytes().decode("utf-8")
    text = rewrite(old, str(condition.file), condition.recorded)
    if "\r\n" in old:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        same = parse(text, condition.file) == condition
    except BadInput:
        same = False
    if not same:
        raise BadInput(f"{condition.file}: cannot be added to; put this at its end:\n{block(condition.recorded)}")
    mode = path.stat().st_mode
    replace_text(path, text)
    path.chmod(mode)
