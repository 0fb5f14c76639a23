"""What makes a stage resumable: recipes, manifests, atomic publication, locks.

An artifact is a file or a folder made by one stage. Its *recipe* is everything that its bytes depend on:
hashes of inputs, parameters, versions. It counts as done only if its manifest holds the same recipe and
the files still have the hashes that the manifest records; that something exists proves nothing. The manifest
also tells how long the build took, which nothing depends on.
An artifact is built under a temporary name beside its place, then renamed; a lock keeps two processes
from building the same one at once. A process killed at any point leaves either the old artifact, none,
or a temporary that the next build removes. What others put at or into its place is never replaced.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from .errors import R2medError
from .paths import MANIFEST

SETTLED_NS = 50_000_000  # a file changed less than this ago may change again within the clock's tick


Rule = Callable[[dict, dict], bool]
Build = Callable[[Path], dict | None]
INCOMPLETE = "incomplete"  # in notes: something failed that may succeed another time
TEMPORARY, LOCKS, MANIFESTS = ".tmp.", ".locks", ".manifests"
_TEMPORARIES = ("new", "old")
_OF_THE_SYSTEM = (".DS_Store",)  # what file managers leave in folders


def same(have: dict, want: dict) -> bool:
    """The default rule for reuse: the recipes are equal."""
    return have == want


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Hashes:
    """SHA-256 of files, remembered by (size, mtime, ctime, inode) so that a rerun need not read them.

    The memory is a JSON file that may be deleted at any time. Thread-safe; of two processes that save
    at once the later wins, and the other hashes again next time.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = Lock()
        self._known: dict[str, list] = {}
        self._dirty = False
        self._written: list[tuple[Path, list[int], str]] = []
        with suppress(OSError, ValueError, RecursionError):
            known = json.loads(path.read_text(encoding="utf-8"))
            self._known = known if isinstance(known, dict) else {}

    @staticmethod
    def _signature(path: Path) -> list[int]:
        stat = path.stat()
        return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]

    def of(self, path: Path) -> str:
        """`sha256(path)`, from memory if the file has not changed since."""
        key, before = str(path.absolute()), self._signature(path)
        known = self._known.get(key)
        if isinstance(known, list) and known[:-1] == before:
            return known[-1]
        digest = sha256(path)
        self._remember(path, before, digest)
        return digest

    def just_written(self, path: Path, digest: str) -> None:
        """Note the hash of a file that this process has just written; `save` remembers it if it has settled."""
        with self._lock:
            self._written.append((path, self._signature(path), digest))

    def _remember(self, path: Path, signature: list[int], digest: str) -> None:
        """Remember a hash, unless the file is so young that a change in the same tick of the clock would go unseen."""
        settled = time.time_ns() - max(signature[1], signature[2]) > SETTLED_NS
        with suppress(OSError):
            if settled and self._signature(path) == signature:
                with self._lock:
                    self._known[str(path.absolute())] = [*signature, digest]
                    self._dirty = True

    def save(self) -> None:
        """Write the memory back if it changed. A folder that cannot be written costs speed, not correctness."""
        while self._written:
            self._remember(*self._written.pop())
        with self._lock, suppress(OSError):
            if self._dirty:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replace_text(self._path, json.dumps(self._known))
                self._dirty = False


@dataclass(frozen=True)
class Artifact:
    """One output of a stage: a folder (its manifest inside) or a file (its manifest in `.manifests/` beside it).

    `members` tells which files of the folder belong to it, where others may lie there too; by default all do.
    """

    path: Path
    folder: bool
    members: Callable[[Path], list[Path]] | None = None

    @property
    def _base(self) -> Path:
        return self.path if self.folder else self.path.parent

    @property
    def _manifest(self) -> Path:
        return self.path / MANIFEST if self.folder else self.path.parent / MANIFESTS / f"{self.path.name}.json"

    def _contents(self) -> list[Path]:
        if not self.folder:
            return [self.path]
        if self.members:
            return self.members(self.path)
        return sorted(
            path
            for path in self.path.rglob("*")
            if not path.is_dir() and path != self._manifest and path.name not in _OF_THE_SYSTEM
        )

    def made_by(self) -> dict | None:
        """The recipe that the artifact says it was made by; None if it has no readable manifest."""
        manifest = self._read()
        return manifest["recipe"] if manifest else None

    def files(self) -> dict[str, str]:
        """What the manifest lists: name -> SHA-256; empty if there is none."""
        manifest = self._read()
        return manifest["files"] if manifest else {}

    def seconds(self) -> float | None:
        """How long its build took by the clock; None if it has no manifest, or one that does not tell."""
        manifest = self._read()
        value = manifest.get("seconds") if manifest else None
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12
        return float(value) if good else None

    def size(self) -> int | None:
        """Bytes of the files that the manifest lists; None if there is none, or if a file is not there."""
        names = self.files()
        try:
            return sum((self._base / name).stat().st_size for name in names) if names else None
        except OSError:
            return None

    def notes(self) -> dict:
        """What its build returned; empty if that was nothing."""
        notes = (self._read() or {}).get("notes")
        return notes if isinstance(notes, dict) else {}

    def _read(self) -> dict | None:
        try:
            manifest = json.loads(self._manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        whole = isinstance(manifest, dict) and isinstance(manifest.get("recipe"), dict)
        files = manifest.get("files") if whole else None
        if not isinstance(files, dict) or not files:
            return None
        return manifest if all(map(_is_inside, files)) else None

    def is_current(self, recipe: dict, hashes: Hashes, serves: Rule = same) -> bool:
        """Whether it is whole and was made by `recipe`, or by a recipe that `serves` it."""
        manifest = self._read()
        if manifest is None or not serves(manifest["recipe"], recipe) or self.notes().get(INCOMPLETE):
            return False
        try:
            found = {path.relative_to(self._base).as_posix() for path in self._contents()}
            return found == set(manifest["files"]) and all(
                hashes.of(self._base / name) == digest for name, digest in manifest["files"].items()
            )
        except OSError:
            return False

    def make(
        self,
        recipe: dict,
        build: Build,
        hashes: Hashes,
        serves: Rule = same,
        still_true: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Make sure that it exists as `recipe` says; return whether it had to be built.

        `build` is called with a temporary path: a folder that exists, or a file that it is to create. What it returns
        is kept in the manifest (see `notes`); if INCOMPLETE is true in it, the artifact is made anew next time. If it
        raises, or if the recipe is not `still_true` after it, nothing of its work stays. Raises R2medError then, if
        the disk refuses, and if something that r2med did not make stands in the way.
        """
        if self.is_current(recipe, hashes, serves):
            return False
        try:
            with self._locked():
                self._sweep()
                if self.is_current(recipe, hashes, serves):  # another process was faster, or was killed after its work
                    return False
                self._check_place()
                self._build(recipe, build, hashes, still_true)
        except OSError as error:
            raise R2medError(f"cannot make {self.path}: {error.strerror or error}") from error
        return True

    def is_tidy(self) -> bool:
        """Whether no temporary of a killed build lies beside it."""
        return not any(os.path.lexists(self._temporary(word)) for word in _TEMPORARIES)

    def remove(self) -> None:
        """Delete what its manifest lists and its temporaries, and the folder if nothing else is in it.

        The manifest goes first, so that a half-deleted artifact is never taken for whole.
        """
        with self._locked():
            self._sweep()
            self._delete()

    def _delete(self) -> None:
        names = self.files()
        self._manifest.unlink(missing_ok=True)
        for name in names:
            path, base = self._base / name, self._base.resolve()
            with suppress(OSError, ValueError):  # a name that a hand has written may be no file's
                if path.parent.resolve().is_relative_to(base):
                    path.unlink(missing_ok=True)
        if self.folder:
            for name in _OF_THE_SYSTEM:
                (self.path / name).unlink(missing_ok=True)
            for folder in sorted((path for path in self.path.rglob("*") if path.is_dir()), reverse=True):
                _remove_if_empty(folder)
            _remove_if_empty(self.path)

    def tidy(self) -> None:
        """Remove what a killed process left beside the artifact, unless somebody is at work on it."""
        if not self.is_tidy():
            with suppress(OSError), self._locked():
                self._sweep()

    def _sweep(self) -> None:
        """Remove temporaries; to be called holding the lock, which says that nobody works on them.

        Killed between its two renames, a build leaves the old folder, and what users keep in it, under the old name
        only: it goes back to its place.
        """
        old = replace(self, path=self._temporary("old"))
        if self.folder and old.made_by() is not None and not os.path.lexists(self.path):
            old.path.rename(self.path)
        for word in _TEMPORARIES:
            _remove(self._temporary(word))

    @contextmanager
    def _locked(self):
        from filelock import FileLock  # costs 40 ms, needed only when something is built

        lock = self.path.parent / LOCKS / f"{self.path.name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            yield

    def _temporary(self, word: str) -> Path:
        return _temporary(self.path, word)

    def _check_place(self) -> None:
        """Raise R2medError if a user's own file would be lost."""
        if not os.path.lexists(self.path) or (self.folder and self.members):  # who has `members` keeps the others
            return
        if not os.path.lexists(self._manifest):
            if self.folder and self.path.is_dir() and not self._contents():
                return
            raise R2medError(f"{self.path} is there, but r2med did not make it: move it out of the way")
        if self.folder:
            listed = self.files() or {path.relative_to(self.path).as_posix(): "" for path in self._contents()}
            foreign = [path for path in self._contents() if path.relative_to(self.path).as_posix() not in listed]
            if foreign:
                raise R2medError(f"{foreign[0]} is not r2med's, and would be lost: move it out of {self.path}")

    def _build(self, recipe: dict, build: Build, hashes: Hashes, still_true: Callable[[], bool]) -> None:
        new = replace(self, path=self._temporary("new"))
        try:
            if self.folder:
                new.path.mkdir()
            began = time.perf_counter()
            notes = build(new.path)
            seconds = round(time.perf_counter() - began, 3)
            if not still_true():
                raise R2medError(f"{self.path}: what it is made from changed meanwhile; run the same command again")
            digests = {path: sha256(path) for path in new._contents()}
            names = {path: path.relative_to(new.path).as_posix() if self.folder else self.path.name for path in digests}
            files = {names[path]: digest for path, digest in digests.items()}
            manifest = {"recipe": recipe, "files": files, "seconds": seconds}
            self._publish(new, manifest | ({"notes": notes} if notes else {}))
        finally:
            _remove(new.path)
        for name, digest in files.items():
            hashes.just_written(self._base / name, digest)

    def _publish(self, new: "Artifact", manifest: dict) -> None:
        """Rename into place. At any moment the files are those of the manifest beside them, or their hashes tell."""
        if self.folder:
            write_json(new._manifest, manifest)
            old = self._temporary("old")
            if os.path.lexists(self.path):
                self.path.rename(old)
            new.path.rename(self.path)
            _remove(old)
            return
        self._manifest.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._manifest, _json(manifest))  # first: so a file without a manifest is never one of ours
        new.path.replace(self.path)


@contextmanager
def publish_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, which becomes `folder` if the block ends well, and vanishes otherwise."""
    new = _temporary(folder, "new")
    try:
        _remove(new)
        new.mkdir(parents=True)
        yield new
        new.rename(folder)
    except OSError as error:
        raise R2medError(f"cannot make {folder}: {error.strerror or error}") from error
    finally:
        _remove(new)


def _is_inside(name: str) -> bool:
    """Whether a manifest's name is one of a file below the artifact's folder."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts and "\0" not in name


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def artifact_path(path: Path) -> Path:
    """The place of the artifact that `path` is a temporary of; any other path unchanged."""
    for word in _TEMPORARIES:
        start = f"{TEMPORARY}{word}."
        if path.name.startswith(start) and path.name != start:
            return path.with_name(path.name.removeprefix(start))
    return path


def _temporary(path: Path, word: str) -> Path:
    return path.with_name(f"{TEMPORARY}{word}.{path.name}")


def replace_text(path: Path, text: str) -> None:
    """Write a file so that at any moment either the old or the new text stands there. Raises OSError."""
    new = _temporary(path, str(os.getpid()))
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Readable, stable JSON: two runs that compute the same value write the same bytes."""
    path.write_text(_json(value), encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
