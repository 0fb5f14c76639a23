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
_GITHUB = re.compile(r"(?:https://(?:[^@/]*@)?|(?:ssh://)?git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_NONE = "no git checkout of r2med-pyserini: clone it, install it with `make setup`, and say this again in that folder"


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
        """The files that differ from the commit, or that it lacks and git does not ignore, but for documentation."""
        status = _git(self.root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        names = sorted(entry[3:] for entry in status.split("\0") if entry)
        return [name for name in names if not name.startswith(f"{DOCS}/")]


def find() -> Checkout:
    """The checkout of the code that is running: the one that it lies in, or else the current folder's, if that is it.

    Raises R2medError if there is none, or if the code that runs is not that of the checkout.
    """
    if shutil.which("git") is None:
        raise R2medError("git is not installed: it says which commit this is")
    root = _top(PACKAGE)
    if root is None or not _is(root / PACKAGE.name, PACKAGE):  # installed, perhaps into a folder that git ignores
        root = _top(Path())
        if root is None or not (root / PACKAGE.name).is_dir():
            raise R2medError(f"neither {PACKAGE.parent} nor the current folder is a {_NONE.removeprefix('no ')}")
        _check_installed(root)
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


def _check_installed(root: Path) -> None:
    """Raise R2medError unless the package that runs has the files of a checkout's, byte for byte."""
    names = _git(root, "ls-files", "-z", "--", PACKAGE.name).split("\0")
    names = [name.partition("/")[2] for name in names if name]
    for name in names or [""]:
        ours, theirs = PACKAGE / name, root / PACKAGE.name / name
        if not (ours.is_file() and theirs.is_file() and ours.read_bytes() == theirs.read_bytes()):
            raise R2medError(
                f"the r2med-pyserini that runs ({PACKAGE}) is not that of {root}: {name or PACKAGE.name} differs; "
                "install this one with `make setup`"
            )


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
