"""Fusing runs: several rankings a query become one.

Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009) adds up 1 / (k + rank), with ranks from 1. CombSUM and
CombMNZ (Fox, Shaw, TREC-2, 1994) add up scores; CombMNZ multiplies the sum by the number of runs that found the
document. WEIGHTED and INTERPOLATION add up weighted scores. In all of them a run that lacks a document adds 0.

A run's ranking is the order of its documents where their scores never rise: it may tell apart what is equal in the
digits of a file. Otherwise they are sorted by score, ties by id. The best `depth` of them count, for normalization too.

Normalization is done a query: MIN_MAX maps scores onto 0 to 1, Z_SCORE to mean 0 and (population) deviation 1. Scores
that are all equal, as that of a single hit is, become 1 with MIN_MAX, as in Pyserini, and 0 with Z_SCORE. To lack a
document counts as 0 afterwards: with Z_SCORE as an average score, so that hits below the average lose by being found.

Fused scores are sums that do not depend on the order of the runs, rounded to single precision, in which trec_eval reads
them: what it takes for a tie is one here too, and stands in the order of ids.

Why no library: pyserini.fusion 2.3 takes ids of queries for numbers where it can ("007" becomes 7), drops documents
called NA, reads quotation marks in ids as quotes, normalizes before it cuts, and has neither CombMNZ, weights nor
z-scores. ranx 0.3.21 refuses runs whose queries differ. Fusing three runs for each of R2MED's 876 queries took 1.1 s of
processor time here, 1.0 s in Pyserini and 22 s in ranx, once compiled; with imports and files, Pyserini took 4.2 s and
ranx 89 s (benchmarks/fusion.py).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import trec
from .artifacts import TEMPORARY
from .composites import COMBMNZ, INTERPOLATION, MIN_MAX, NONE, RRF, WEIGHTED, FusionSpec
from .errors import BadInput, R2medError, UsageError

if TYPE_CHECKING:
    import numpy as np

_EXAMPLES = 3
_Ranking = tuple[list[str], "np.ndarray"]  # document ids, and their scores in double precision


def fuse(runs: Sequence[trec.Run], spec: FusionSpec) -> Iterator[tuple[str, list[str], list[float]]]:
    """The fused run: (query id, document ids, scores), queries of any of the runs in the order of their ids.

    At most `spec.hits` documents a query, best first, equal scores by document id. A query that a run lacks is fused
    from the others. `spec.weights` are one a run, or ValueError is raised; BadInput, if scores are too large to add up.
    """
    for query in sorted(set().union(*runs)):
        rankings = [_ranking(run.get(query, {}), spec.depth) for run in runs]
        yield query, *_fused(query, rankings, spec)


def lacking(runs: Sequence[trec.Run], names: Sequence[str]) -> list[str]:
    """A sentence for every run that has no hit for a query of the others; `names` are what to call the runs."""
    queries, notes = sorted(set().union(*runs)), []
    for run, name in zip(runs, names, strict=True):
        missing = [query for query in queries if not run.get(query)]
        if missing:
            more = ", ..." if len(missing) > _EXAMPLES else ""
            which = f"{', '.join(missing[:_EXAMPLES])}{more}"
            notes.append(f"{name} has no hit for {len(missing):,} of {len(queries):,} queries ({which})")
    return notes


def fuse_files(paths: Sequence[Path], spec: FusionSpec, out: Path, overwrite: bool = False) -> list[str]:
    """Fuse run files, read strictly, into the file `out`; returns what is odd about the runs, a sentence each.

    A file that is there already is replaced only with `overwrite`. At the end the whole run stands there, or what stood
    there before. Raises BadInput with the faults of all files, or if the runs seem to be of different datasets;
    UsageError; and R2medError if `out` is there already or cannot be written.
    """
    _check_places(paths, out, overwrite)
    runs, names = _read(paths), [str(path) for path in paths]
    _check_queries(runs, names)
    with _published(out) as new:
        trec.write_run(new, fuse(runs, spec), f"r2med-{spec.method}", trec.EXACT_SCORE)
    return [*lacking(runs, names), *_strangers(runs, names)]


def _ranking(hits: dict[str, float], depth: int | None) -> _Ranking:
    """The best `depth` documents of a run for one query, with their scores, which never rise."""
    import numpy as np

    documents, scores = list(hits), np.fromiter(hits.values(), float, len(hits))
    if (scores[1:] > scores[:-1]).any():
        documents.sort(key=lambda document: (-hits[document], document))
        scores = -np.sort(-scores)
    return documents[:depth], scores[:depth]


def _fused(query: str, rankings: list[_Ranking], spec: FusionSpec) -> tuple[list[str], list[float]]:
    import numpy as np

    names = sorted(set().union(*(documents for documents, _ in rankings)))
    places = dict(zip(names, range(len(names)), strict=True))
    parts, found = np.zeros((len(rankings), len(names))), np.zeros(len(names), int)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is told below
        for part, weight, (documents, scores) in zip(parts, _weights(spec, len(rankings)), rankings, strict=True):
            at = [places[document] for document in documents]
            part[at] = weight * _points(scores, spec)
            found[at] += 1
        parts.sort(axis=0)  # the last bits of a sum depend on its order
        total = parts.sum(axis=0)
        if spec.method == COMBMNZ:
            total *= found
        total = total.astype(np.float32) + 0.0  # which makes -0 to 0
    if not np.isfinite(total).all():
        raise BadInput(f"query {query}: the sums of the scores are too large; fuse with normalization: {MIN_MAX}")
    best = np.argsort(-total, kind="stable")[: spec.hits]
    return [names[place] for place in best.tolist()], total[best].tolist()


def _weights(spec: FusionSpec, runs: int) -> tuple[float, ...]:
    if spec.method == WEIGHTED:
        return spec.weights
    return (spec.alpha, 1 - spec.alpha) if spec.method == INTERPOLATION else (1.0,) * runs


def _points(scores: "np.ndarray", spec: FusionSpec) -> "np.ndarray":
    """What a run gives to its documents, whose `scores` never rise, before weights."""
    import numpy as np

    if spec.method == RRF:
        return 1 / (spec.k + np.arange(1, len(scores) + 1))
    if spec.normalization == NONE or not len(scores):
        return scores
    if scores[0] == scores[-1]:
        return np.full(len(scores), 1.0 if spec.normalization == MIN_MAX else 0.0)
    # A power of two changes no digit; so neither the largest nor the smallest numbers lead out of double precision.
    scores = np.ldexp(scores, -np.frexp(np.abs(scores).max())[1])
    if spec.normalization == MIN_MAX:
        return (scores - scores[-1]) / (scores[0] - scores[-1])
    return (scores - scores.mean()) / scores.std()


def _check_places(paths: Sequence[Path], out: Path, overwrite: bool) -> None:
    """Raise UsageError or R2medError where a file would be lost, or a run counts twice by a slip."""
    places = [os.path.realpath(path) for path in paths]
    twice = next((path for path, place in zip(paths, places, strict=True) if places.count(place) > 1), None)
    if len(paths) < 2 or twice:
        raise UsageError(f"{twice} is given twice" if twice else "two or more runs are wanted to fuse")
    if os.path.realpath(out) in places:
        raise UsageError(f"{out} is one of the runs to fuse: name another file for the fused run")
    if os.path.lexists(out) and not (overwrite and out.is_file() and not out.is_symlink()):
        hint = "name another file" if overwrite else "name another file, or say --overwrite"
        raise R2medError(f"{out} is there already: {hint}")


def _read(paths: Sequence[Path]) -> list[trec.Run]:
    runs, faults = [], []
    for path in paths:
        try:
            runs.append(trec.read_run(path))
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(faults)
    return runs


def _check_queries(runs: list[trec.Run], names: list[str]) -> None:
    """Raise BadInput if there is nothing to fuse, or a run has hits, but for no query of the others."""
    if not any(runs):
        raise BadInput(f"{', '.join(names)}: hold no row; a run has lines of 6 columns: {trec.RUN_COLUMNS}")
    for run, name, others in _each_beside_others(runs, names):
        queries = set().union(*others)
        if run and queries and not run.keys() & queries:
            example = f"it has {min(run)!r}, the others {min(queries)!r}"
            raise BadInput(f"{name} shares no query with the other runs ({example}): are they of the same dataset?")


def _strangers(runs: list[trec.Run], names: list[str]) -> list[str]:
    """A sentence for every run that has hits, but none in common with the others."""
    return [
        f"{name} shares no document with the other runs: are they of the same dataset?"
        for run, name, others in _each_beside_others(runs, names)
        if run and any(others)
        and not any(run[query].keys() & other.get(query, {}).keys() for query in run for other in others)
    ]  # fmt: skip


def _each_beside_others(runs: list[trec.Run], names: list[str]) -> Iterator[tuple[trec.Run, str, list[trec.Run]]]:
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        yield run, name, runs[:place] + runs[place + 1 :]


@contextmanager
def _published(out: Path) -> Iterator[Path]:
    """A temporary file's path beside `out`, renamed to `out` if the block ends well. Raises R2medError."""
    new = out.with_name(f"{TEMPORARY}{os.getpid()}.{out.name}")
    try:
        yield new
        new.replace(out)
    except OSError as error:
        raise R2medError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
