import json
from threading import Barrier, Event, Lock

import pytest

from r2med_pyserini import stages as module
from r2med_pyserini.artifacts import Artifact, Hashes
from r2med_pyserini.errors import R2medError
from r2med_pyserini.stages import Stage, current, execute


@pytest.fixture
def hashes(tmp_path) -> Hashes:
    return Hashes(tmp_path / ".cache" / "hashes.json")


@pytest.fixture
def log():
    return []


@pytest.fixture
def stage(tmp_path, hashes, log):
    """Makes a stage whose recipe hashes what it needs; building it is logged."""

    def make(name, *needs, work=lambda: None, version=1):
        path = tmp_path / "out" / name

        def recipe():
            return {"version": version, "needs": [hashes.of(need.artifact.path) for need in needs]}

        def build(file):
            work()
            log.append(name)
            file.write_text(f"{name} {version}")

        return Stage("make", name, Artifact(path, folder=False), recipe, build, needs)

    return make


def raising(error):
    def work():
        raise error

    return work


class TestOrder:
    @pytest.mark.parametrize("threads", [1, 2, 8])
    def test_a_stage_comes_after_what_it_needs(self, stage, hashes, log, threads):
        a, b = stage("a"), stage("b")
        c = stage("c", a, b)
        d, e = stage("d", c), stage("e", c)
        f = stage("f", d, e)
        assert execute([f, e, d, c, b, a], threads, hashes) == {}
        assert sorted(log) == ["a", "b", "c", "d", "e", "f"]
        for before, after in ("ac", "bc", "cd", "ce", "df", "ef"):
            assert log.index(before) < log.index(after)

    def test_with_one_thread_earlier_stages_come_first(self, stage, hashes, log):
        c, a, b = stage("c"), stage("a"), stage("b")
        execute([c, stage("c2", c), a, stage("a2", a), b], 1, hashes)
        assert log == ["c", "c2", "a", "a2", "b"]

    def test_done_stages_are_not_done_again(self, stage, hashes, log):
        a = stage("a")
        plan = [a, stage("b", a)]
        execute(plan, 2, hashes)
        log.clear()
        assert execute(plan, 2, hashes) == {}
        assert log == []

    def test_a_changed_output_is_passed_on_only_as_far_as_bytes_change(self, stage, hashes, log):
        a = stage("a")
        execute([a, stage("b", a)], 1, hashes)
        log.clear()
        newer = stage("a", version=2)
        execute([newer, stage("b", newer)], 1, hashes)
        assert log == ["a", "b"]

    def test_nothing_to_do_is_done_at_once(self, hashes):
        assert execute([], 2, hashes) == {}


class TestFailures:
    @pytest.mark.parametrize("threads", [1, 4])
    def test_a_failure_stops_only_what_needs_it(self, stage, hashes, log, threads):
        a, x = stage("a", work=raising(R2medError("broken"))), stage("x")
        b, y = stage("b", a), stage("y", x)
        failed = execute([a, b, stage("c", b, y), x, y, stage("z", y)], threads, hashes)
        assert {str(stage): str(error) for stage, error in failed.items()} == {"make a": "broken"}
        assert sorted(log) == ["x", "y", "z"]

    def test_several_failures_are_all_reported(self, stage, hashes):
        plan = [stage(name, work=raising(R2medError(name))) for name in "abc"]
        assert execute(plan, 2, hashes).keys() == set(plan)

    def test_a_missing_input_becomes_an_error_that_names_it(self, stage, hashes, log, tmp_path):
        lost = Stage("make", "lost", Artifact(tmp_path / "lost", folder=False),
                     lambda: {"raw": hashes.of(tmp_path / "raw.jsonl")}, lambda path: None)  # fmt: skip
        failed = execute([lost, stage("a")], 1, hashes)
        assert log == ["a"]
        assert type(failed[lost]) is R2medError
        assert str(failed[lost]) == f"make lost: {tmp_path / 'raw.jsonl'}: No such file or directory"

    def test_a_full_disk_becomes_an_error(self, stage, hashes):
        full = stage("a", work=raising(OSError(28, "No space left on device")))
        assert "No space left on device" in str(execute([full], 1, hashes)[full])

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_anything_else_passes_through(self, stage, hashes, log, error):
        with pytest.raises(error):
            execute([stage("a", work=raising(error())), stage("b")], 1, hashes)
        assert log == []

    @pytest.mark.parametrize("error", [R2medError("no"), KeyboardInterrupt()])
    def test_known_hashes_are_saved_whatever_happens(self, stage, hashes, tmp_path, error):
        plan = [stage("a"), stage("b", work=raising(error))]
        try:
            execute(plan, 1, hashes)
        except KeyboardInterrupt:
            assert isinstance(error, KeyboardInterrupt)
        saved = json.loads((tmp_path / ".cache" / "hashes.json").read_text())
        assert list(saved) == [str(plan[0].artifact.path)]


class TestThreads:
    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_no_more_stages_run_at_once_than_there_are_threads(self, stage, hashes, monkeypatch, threads):
        monkeypatch.setattr(module, "TICK", 0.01)
        gate, lock, at_once, running = Event(), Lock(), [], []

        def work():
            with lock:
                running.append(1)
                at_once.append(len(running))
            gate.wait(10)
            with lock:
                running.pop()

        def observe(progress):
            assert len(progress.running) <= threads
            if progress.stage is None and len(running) == threads:
                gate.set()  # a tick has passed, and all threads are busy

        assert execute([stage(f"s{number}", work=work) for number in range(7)], threads, hashes, observe) == {}
        assert max(at_once) == threads

    def test_independent_stages_run_side_by_side(self, stage, hashes):
        meeting = Barrier(3)
        plan = [stage(name, work=lambda: meeting.wait(10)) for name in "abc"]
        assert execute(plan, 3, hashes) == {}


class TestProgress:
    def test_the_observer_hears_of_every_stage(self, stage, hashes):
        a = stage("a")
        plan, heard = [a, stage("b", a)], []
        execute([a], 1, hashes)
        execute(plan, 1, hashes, heard.append)
        ended = [(progress.done, progress.total, str(progress.stage), progress.built) for progress in heard]
        assert ended == [(1, 2, "make a", False), (2, 2, "make b", True)]

    def test_the_observer_hears_that_time_passes(self, stage, hashes, monkeypatch):
        monkeypatch.setattr(module, "TICK", 0.001)
        gate, ticks = Event(), []

        def observe(progress):
            if progress.stage is None:
                ticks.append((progress.done, progress.total, *map(str, progress.running)))
                gate.set()

        execute([stage("a", work=lambda: gate.wait(10))], 1, hashes, observe)
        assert ticks[0] == (0, 1, "make a")

    def test_a_failed_stage_is_not_counted_as_done(self, stage, hashes):
        heard = []
        execute([stage("a", work=raising(R2medError("no"))), stage("b")], 1, hashes, heard.append)
        assert [(progress.done, str(progress.stage)) for progress in heard] == [(1, "make b")]


class TestCurrent:
    def test_nothing_is_current_before_it_is_built(self, stage, hashes):
        a = stage("a")
        b = stage("b", a)
        assert current([a, b], hashes) == {a: False, b: False}

    def test_everything_is_current_after_it_is_built(self, stage, hashes):
        a = stage("a")
        plan = [a, stage("b", a)]
        execute(plan, 1, hashes)
        assert set(current(plan, hashes).values()) == {True}

    def test_a_stage_is_not_current_if_what_it_needs_is_not(self, stage, hashes):
        a = stage("a")
        b, c = stage("b", a), stage("c")
        execute([a, b, c], 1, hashes)
        a.artifact.remove()
        assert current([a, b, c], hashes) == {a: False, b: False, c: True}

    def test_a_stage_is_not_current_even_if_what_it_needs_still_has_the_same_bytes(self, stage, hashes):
        a = stage("a")
        execute([a, stage("b", a)], 1, hashes)
        newer = stage("a", version=2)
        b = stage("b", newer)
        assert current([newer, b], hashes) == {newer: False, b: False}

    def test_looking_builds_nothing(self, stage, hashes, log, tmp_path):
        current([stage("a")], hashes)
        assert log == [] and not (tmp_path / "out").exists()

    def test_a_missing_input_is_not_current_and_no_error(self, hashes, tmp_path):
        lost = Stage("make", "lost", Artifact(tmp_path / "lost", folder=False),
                     lambda: {"raw": hashes.of(tmp_path / "raw.jsonl")}, lambda path: None)  # fmt: skip
        lost.artifact.make({"raw": "x"}, lambda path: path.write_text("x"), hashes)
        assert current([lost], hashes) == {lost: False}
