"""The published figures, and which of them a condition is held against.

`published.csv` holds a row a system x dataset x measure, on a scale of 0 to 1. Column `source` says where it is from:

- `r2med`: the result files that the R2MED authors publish with their code (https://github.com/R2MED/R2MED, folder
  `results`): plain retrievers, rerankers and generation-augmented retrieval. Their headline is the unweighted mean of
  nDCG@10 over the eight datasets. Some of their files use older names, such as PMCPatients for PMC-Clinical.
- `mteb`: the public results of MTEB, the Massive Text Embedding Benchmark, for the same datasets at the same revisions
  (https://github.com/embeddings-benchmark/results).
"""

import csv
from dataclasses import dataclass, fields
from functools import cache

from .errors import UsageError
from .paths import PUBLISHED_FILE
from .suggest import did_you_mean

SUITE = "r2med"  # the only suite that anybody published figures for


@dataclass(frozen=True, order=True)
class System:
    """A published system; an empty field means that it has no such part."""

    source: str
    retriever: str
    gar_method: str = ""
    gar_llm: str = ""
    reranker: str = ""
    depth: str = ""

    def __str__(self) -> str:
        parts = [self.retriever, "+".join(filter(None, (self.gar_method, self.gar_llm))), self.reranker]
        named = " + ".join(filter(None, parts)) + (f" (top {self.depth})" if self.depth else "")
        return f"{self.source}: {named}"


FIELDS = tuple(field.name for field in fields(System))


@cache
def table() -> dict[System, dict[str, dict[str, float]]]:
    """Every published figure: system -> dataset -> measure -> value."""
    found: dict[System, dict[str, dict[str, float]]] = {}
    with PUBLISHED_FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            system = System(**{name: row[name] for name in FIELDS})
            found.setdefault(system, {}).setdefault(row["dataset"], {})[row["metric"]] = float(row["value"])
    return found


def figures(system: System, suite: str, dataset: str) -> dict[str, float]:
    """The published figures of one system on one dataset: measure -> value. Empty for a suite of other data."""
    return table().get(system, {}).get(dataset, {}) if suite == SUITE else {}


def select(**wanted: str | None) -> list[System]:
    """The systems whose fields have the values given (None: any), sorted by name.

    Raises UsageError, with a suggestion, for a value that no system has.
    """
    wanted = {name: value for name, value in wanted.items() if value is not None}
    for name, value in wanted.items():
        known = sorted({getattr(system, name) for system in table()} - {""})
        if value not in ("", *known):
            raise UsageError(f"no published {name} {value!r}{did_you_mean(value, known)}; there are {', '.join(known)}")
    chosen = [system for system in table() if all(getattr(system, name) == value for name, value in wanted.items())]
    return sorted(chosen)
