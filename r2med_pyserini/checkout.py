"""The git checkout that the running code comes from: which commit it is, and whether it is just that."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import R2medError
from .paths import PACKAGE

SHORT = 7  # digits of a commit, as people write it
DOCS = "docs"
_COMPILED = "__pycache__/"
_GITHUB = re.compile(r"(?:https://(?:[^@/]*@)?|(?:ssh://)?git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_WANTED = "a git checkout of r2med-pyserini: clone it, install it with `make setup`, and say this again in that folder"


@dataclass(frozen=True)
class Checkout:
    """A checkout: its top folder, the 40 digits of its commit, and the page of its repository on GitHub, if any."""

    root: Path
    commit: str
    page: str | None

    @property
    def docs(self) -> Path:
        """Where the documentation lies."""
        return self.root / DOCS

    @property
    def commit_page(self) -> str | None:
        """Where people look at the commit."""
        return f"{self.page}/commit/{self.commit}" if self.page else None

    def changes(self) -> list[str]:
        """The files that differ from the commit, or that it lacks, but for documentation.

        Files that git ignores count within the package, where they would run, or be read, as if they were part of it.
        """
        status = _git(self.root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        names = {entry[3:] for entry in status.split("\0") if entry}
        names |= _list(self.root, "--others")
        return sorted(name for name in names if not name.startswith(f"{DOCS}/"))


def find(package: Path = PACKAGE) -> Checkout:
    """The checkout of the code that runs: the one that it lies in, or else the current folder's, if that has the same.

    Raises R2medError if there is none.
    """
    if shutil.which("git") is None:
        raise R2medError("git is not installed: it says which commit this is")
    root = _top(package)
    if root is None or not _is(root / PACKAGE.name, package):  # installed, perhaps into a folder that git ignores
        root = _top(Path())
        if root is None or not (root / PACKAGE.name).is_dir():
            raise R2medError(f"neither {package} nor the current folder is in {_WANTED}")
        _check_installed(package, root)
    try:
        commit = _git(root, "rev-parse", "--verify", "HEAD^{commit}").strip()
    except R2medError as error:
        raise R2medError(f"{root} has no commit yet: make one") from error
    return Checkout(root, commit, _page(root))


def _top(folder: Path) -> Path | None:
    """The top folder of the checkout that a folder lies in; None if it lies in none."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    except R2medError as error:
        if "not a git repository" in str(error):
            return None
        raise


def _is(one: Path, other: Path) -> bool:
    return one.exists() and one.samefile(other)


def _list(root: Path, *how: str) -> set[str]:
    """The files of a checkout's package that git knows (or does not, with --others), as seen from its top folder."""
    names = _git(root, "ls-files", "-z", *how, "--", PACKAGE.name).split("\0")
    return {name for name in names if name and _COMPILED not in name}


def _check_installed(package: Path, root: Path) -> None:
    """Raise R2medError unless the package that runs has the files of a checkout's, byte for byte."""
    known = _list(root)
    paths = (path for path in package.rglob("*") if path.is_file())
    here = {f"{PACKAGE.name}/{path.relative_to(package).as_posix()}": path for path in paths}
    here = {name: path for name, path in here.items() if _COMPILED not in name}
    lacking = {name for name in known - here.keys() if name.endswith(".py")}
    odd = sorted(lacking | {name for name in here if not (name in known and _equal(here[name], root / name))})
    if odd:
        raise R2medError(
            f"the r2med-pyserini that runs ({package}) is not that of {root}: {odd[0]} is not the same; "
            "install that one with `make setup`"
        )


def _equal(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def _page(root: Path) -> str | None:
    """Where GitHub shows the repository that the checkout was cloned from; without what else the address may hold."""
    try:
        address = _git(root, "config", "--get", "remote.origin.url").strip()
    except R2medError:
        return None
    found = _GITHUB.fullmatch(address)
    return f"https://github.com/{found[1]}/{found[2]}" if found else None


def _git(folder: Path, *words: str) -> str:
    """What git prints. Raises R2medError with what it complains of."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
    except OSError as error:
        raise R2medError(f"git does not start: {error.strerror or error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise R2medError(f"git {words[0]} in {folder}: {said}")
    return done.stdout.decode(errors="surrogateescape")
