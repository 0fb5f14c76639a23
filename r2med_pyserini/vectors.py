"""Vectors of a collection's texts on disk, in shards that outlive an interruption.

A shard holds the vectors of SHARD consecutive texts, as a file that is named by all that they depend on: the facts
about the model, the precision, and the texts themselves. So work that was interrupted goes on at the shard, a changed
text costs its shard alone, and a changed setting finds nothing to reuse. Finished shards gather in a folder of parts,
where several processes and machines may put them; when all are there they are put together in the order of the texts.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING

from . import encoders
from .artifacts import sha256, write_json
from .encoders import Encoders
from .encoders.base import Advance
from .errors import R2medError
from .models import FLOAT16, SPARSE, Model

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse

SHARD = 1024
SHARD_FORMAT = 1  # to be raised when what a shard holds changes, so that none of an older kind is reused
_RECORD, _IDS, _VOCABULARY = "encoding.json", "docid", "vocabulary.json"
_NEW = "new-"  # before the name of a shard that is being written
_PART = re.compile(rf"({_NEW}\d+-)?[0-9a-f]{{32}}\.(npy|npz|json)")
_ABANDONED_S = 3600  # a shard is written in seconds: what has not changed for so long, a killed process left

Texts = Iterable[tuple[str, str]]  # id, text
type Matrix = np.ndarray | scipy.sparse.csr_matrix


@dataclass(frozen=True)
class Job:
    """The texts of one side of a dataset, to be encoded by one model.

    Shards that are in the folder `parts`, where new ones go, or in `whole`, where `put_together` put them once, are not
    made again.
    """

    model: Model
    side: str
    dataset: str
    texts: Callable[[], Texts]
    parts: Path
    whole: Path

    def key(self, precision: str) -> dict:
        """All that the vector of a text depends on, but the text."""
        recipe = self.model.recipe(self.side, self.dataset)
        return {"format": SHARD_FORMAT, "model": recipe, "precision": precision}


@dataclass(frozen=True)
class _Shard:
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, job: Job, precision: str) -> Iterator["_Shard"]:
        """The shards of a job, in order; one is in memory at a time."""
        key = json.dumps(job.key(precision), sort_keys=True)
        for items in batched(job.texts(), SHARD):
            ids, texts = zip(*items, strict=True)
            digest = hashlib.sha256(json.dumps([key, texts]).encode()).hexdigest()
            yield cls(ids, texts, digest[:32])


def share(texts: int, part: tuple[int, int]) -> int:
    """How many of so many texts are in the shards of `part`; see `make_parts`."""
    number, of = part
    return sum(min(SHARD, texts - start) for start in range((number - 1) * SHARD, texts, of * SHARD))


def make_parts(job: Job, models: Encoders, advance: Advance, part: tuple[int, int] = (1, 1)) -> int:
    """Encode the shards of a job that are not there yet, and return how many these were.

    Of `part` (i, n) every n-th shard is meant, from the i-th on, so that n processes share the work. `advance` is told
    how many more texts are done. Raises R2medError.
    """
    number, of = part
    precision, made = encoders.precision(job.model, models.settings), 0
    for position, shard in enumerate(_Shard.of(job, precision)):
        if position % of != number - 1:
            continue
        if _find(job, shard):
            advance(len(shard.texts))
        else:
            _encode(job, shard, models, advance)
            made += 1
    return made


def put_together(job: Job, models: Encoders, folder: Path, advance: Advance) -> None:
    """Fill `folder` with all vectors of a job, encoding the shards that are not there yet. Raises R2medError."""
    precision = encoders.precision(job.model, models.settings)
    shards, ids, fresh = [], [], False
    for shard in _Shard.of(job, precision):
        found = _find(job, shard)
        if found:
            advance(len(shard.texts))
        else:
            found, fresh = _encode(job, shard, models, advance), True
        path, cut = found
        _link(path, folder / path.name)
        _link(_note(path), _note(folder / path.name))
        shards.append({"file": path.name, "texts": len(shard.ids), "truncated": cut})
        ids += shard.ids
    if job.model.kind == SPARSE:
        write_json(folder / _VOCABULARY, models.get(job.model).vocabulary())
    (folder / _IDS).write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
    device = models.get(job.model).device if fresh else None
    record = {"model": job.model.name, "side": job.side, "precision": precision, "last encoded on": device}
    write_json(folder / _RECORD, record | {"shards": shards})


def discard(job: Job) -> None:
    """Remove from the folder of parts what is in the folder `whole` of a job, and what a killed process left.

    Shards of other texts and settings stay, as others may be gathering them, and so does what is being written.
    """
    done: set[str] = set()
    with suppress(OSError, ValueError):
        record = json.loads((job.whole / _RECORD).read_text(encoding="utf-8"))
        done = {Path(shard["file"]).stem for shard in record["shards"]}
    _remove(job.parts, lambda path: path.stem in done or _is_abandoned(path))


def remove_parts(parts: Path) -> None:
    """Remove all shards from a folder of parts, unfinished ones too, and the folder if nothing else is in it."""
    _remove(parts, lambda path: True)


def _remove(parts: Path, which: Callable[[Path], bool]) -> None:
    try:
        found = sorted(parts.iterdir())
    except FileNotFoundError:
        return
    for path in found:
        with suppress(FileNotFoundError):  # another process was faster
            if _PART.fullmatch(path.name) and which(path):
                path.unlink()
    with suppress(OSError):  # something is left in it
        parts.rmdir()


def _is_abandoned(path: Path) -> bool:
    return path.name.startswith(_NEW) and time.time() - path.stat().st_mtime >= _ABANDONED_S


def _find(job: Job, shard: _Shard) -> tuple[Path, int] | None:
    """The file of a shard that is there undamaged, and how many of its texts were cut."""
    for place in (job.parts, job.whole):
        path = place / _file(job.model, shard.name)
        with suppress(OSError, ValueError, RecursionError):
            note = json.loads(_note(path).read_text(encoding="utf-8"))
            whole = isinstance(note, dict) and type(note.get("truncated")) is int
            if whole and note.get("sha256") == sha256(path):
                return path, note["truncated"]
    return None


def _file(model: Model, name: str) -> str:
    return f"{name}.npz" if model.kind == SPARSE else f"{name}.npy"


def _note(shard: Path) -> Path:
    """The file beside a shard that says how many of its texts were cut, and the shard's hash."""
    return shard.with_suffix(".json")


def _link(source: Path, target: Path) -> None:
    """The same file in another place, where the disk can without taking room."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        target.write_bytes(source.read_bytes())


def _encode(job: Job, shard: _Shard, models: Encoders, advance: Advance) -> tuple[Path, int]:
    """Encode one shard into the folder of parts, where it is whole from the moment that it is there; see `_find`."""
    encoder = models.get(job.model)
    found = encoder.encode(shard.texts, job.side, job.dataset, advance)
    vectors = _as_stored(found.vectors, encoder.precision)
    _check(job, shard, vectors)
    job.parts.mkdir(parents=True, exist_ok=True)
    path = job.parts / _file(job.model, shard.name)
    new = path.with_name(f"{_NEW}{os.getpid()}-{path.name}")
    try:
        _save(new, vectors)
        write_json(_note(new), {"truncated": found.truncated, "sha256": sha256(new)})
        _note(new).replace(_note(path))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
        _note(new).unlink(missing_ok=True)
    return path, found.truncated


def _as_stored(vectors: Matrix, precision: str) -> Matrix:
    """The vectors in half precision if the model computed in it (but float32 for bfloat16, which NumPy has not)."""
    import numpy as np

    if not isinstance(vectors, np.ndarray):
        return vectors
    with np.errstate(over="ignore"):  # `_check` tells
        return vectors.astype(np.float16 if precision == FLOAT16 else np.float32)


def _check(job: Job, shard: _Shard, vectors: Matrix) -> None:
    """Raise R2medError where a vector is none: NaN, infinite, or of another number of dimensions."""
    import numpy as np

    texts, dimensions = vectors.shape
    model = job.model
    if texts != len(shard.ids) or dimensions != model.dimensions:
        wanted = f"{len(shard.ids)} of {model.dimensions}"
        raise R2medError(f"model {model.name} gave {texts} vectors of {dimensions} dimensions; {wanted} are wanted")
    if model.kind == SPARSE:
        good = np.ones(texts, bool)
        rows = np.repeat(np.arange(texts), np.diff(vectors.indptr))
        good[rows[~np.isfinite(vectors.data)]] = False
    else:
        good = np.isfinite(vectors).all(axis=1)
    if not good.all():
        name = shard.ids[int(np.flatnonzero(~good)[0])]
        text = f"model {model.name}: the vector of {job.side} {name} holds NaN or infinite values"
        raise R2medError(f"{text} (half precision may overflow: try --dtype float32)")


def _save(path: Path, vectors: Matrix) -> None:
    import numpy as np

    content = BytesIO()  # NumPy does not say what kept it from writing to a disk
    if isinstance(vectors, np.ndarray):
        np.save(content, vectors)
    else:
        from scipy.sparse import save_npz

        save_npz(content, vectors, compressed=False)
    path.write_bytes(content.getbuffer())


class Vectors:
    """The vectors that `put_together` has put into a folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        self._shards, self.precision = record["shards"], record["precision"]

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the texts, in their order."""
        return (self._folder / _IDS).read_text(encoding="utf-8").split("\n")[:-1]

    @property
    def truncated(self) -> int:
        """How many texts were cut at the model's length."""
        return sum(shard["truncated"] for shard in self._shards)

    def vocabulary(self) -> list[str]:
        """The token of each dimension, of sparse vectors."""
        return json.loads((self._folder / _VOCABULARY).read_text(encoding="utf-8"))

    def parts(self) -> Iterator[tuple[list[str], Matrix]]:
        """Ids and vectors, a shard at a time: float32 or float16 [texts, dimensions] mapped from disk, or sparse."""
        start = 0
        for shard in self._shards:
            yield self.ids[start : start + shard["texts"]], _load(self._folder / shard["file"])
            start += shard["texts"]

    def matrix(self) -> Matrix:
        """All vectors at once, float32; for queries."""
        import numpy as np

        found = [vectors for _, vectors in self.parts()]
        if isinstance(found[0], np.ndarray):
            return np.concatenate(found).astype(np.float32)
        from scipy.sparse import vstack

        return vstack(found, format="csr")


def _load(path: Path) -> Matrix:
    import numpy as np

    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    from scipy.sparse import load_npz

    return load_npz(path)
