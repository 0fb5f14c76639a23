import json
from threading import Barrier, Event, Lock

import pytest

from r2med_pyserini import stages as module
from r2med_pyserini.artifacts import Artifact, Hashes
from r2med_pyserini.errors import R2medError
from r2med_pyserini.stages import DONE, NOT_NEEDED, TO_DO, Result, Stage, execute, preview


@pytest.fixture
def hashes(tmp_path) -> Hashes:
    return Hashes(tmp_path / ".cache" / "hashes.json")


@pytest.fixture
def log():
    return []


@pytest.fixture
def stage(tmp_path, hashes, log):
    """Makes a stage whose recipe hashes what it needs; building it is logged, and its tools must be there by then."""

    def make(name, *needs, tools=(), on_demand=False, work=lambda: None, version=1, **more):
        path = tmp_path / "out" / name

        def recipe():
            return {"version": version, "needs": [hashes.of(need.artifact.path) for need in needs]}

        def build(file):
            assert all(tool.artifact.path.exists() for tool in tools)
            work()
            log.append(name)
            file.write_text(f"{name} {version}")

        return Stage("make", name, Artifact(path, folder=False), recipe, build, needs, tools, on_demand, **more)

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
        assert execute([f, e, d, c, b, a], threads, hashes).failed == {}
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
        assert execute(plan, 2, hashes).failed == {}
        assert log == []

    def test_a_changed_output_is_passed_on_only_as_far_as_bytes_change(self, stage, hashes, log):
        a = stage("a")
        execute([a, stage("b", a)], 1, hashes)
        log.clear()
        newer = stage("a", version=2)
        execute([newer, stage("b", newer)], 1, hashes)
        assert log == ["a", "b"]

    def test_nothing_to_do_is_done_at_once(self, hashes):
        assert execute([], 2, hashes) == Result(frozenset(), {})


class TestResult:
    """What `execute` says is done is up to date, whether it was built or found."""

    @pytest.mark.parametrize("threads", [1, 4])
    def test_what_was_built_and_what_was_found_is_done(self, stage, hashes, threads):
        a = stage("a")
        plan = [a, stage("b", a)]
        execute([a], threads, hashes)
        assert execute(plan, threads, hashes) == Result(frozenset(plan), {})

    def test_neither_a_failed_stage_nor_what_needs_it_is_done(self, stage, hashes):
        error = R2medError("broken")
        a, other = stage("a", work=raising(error)), stage("other")
        assert execute([a, stage("b", a), other], 1, hashes) == Result(frozenset([other]), {a: error})

    def test_what_needs_a_failed_stage_is_not_done_though_it_is_there(self, stage, hashes):
        """The scores of an old run are not those of a run that could not be made."""
        a = stage("a")
        execute([a, stage("b", a)], 1, hashes)
        newer = stage("a", version=2, work=raising(R2medError("broken")))
        assert execute([newer, stage("b", newer)], 1, hashes).done == frozenset()

    def test_a_stage_whose_tool_failed_is_not_done(self, stage, hashes):
        tool = stage("tool", on_demand=True, work=raising(R2medError("broken")))
        b = stage("b", tools=(tool,))
        result = execute([tool, b, stage("c", b)], 1, hashes)
        assert (result.done, list(result.failed)) == (frozenset(), [tool])

    def test_a_tool_that_nobody_needed_is_not_done(self, stage, hashes):
        tool = stage("tool", on_demand=True)
        b = stage("b", tools=(tool,))
        assert execute([tool, b], 1, hashes).done == {tool, b}
        tool.artifact.remove()
        assert execute([tool, b], 1, hashes).done == {b}

    def test_leftovers_beside_a_current_stage_are_removed(self, stage, hashes):
        a = stage("a")
        execute([a], 1, hashes)
        left = a.artifact.path.with_name(".tmp.new.a")
        left.write_text("half")
        assert execute([a], 1, hashes).done == {a}
        assert not left.exists()


class TestFailures:
    @pytest.mark.parametrize("threads", [1, 4])
    def test_a_failure_stops_only_what_needs_it(self, stage, hashes, log, threads):
        a, x = stage("a", work=raising(R2medError("broken"))), stage("x")
        b, y = stage("b", a), stage("y", x)
        failed = execute([a, b, stage("c", b, y), x, y, stage("z", y)], threads, hashes).failed
        assert {str(stage): str(error) for stage, error in failed.items()} == {"make a": "broken"}
        assert sorted(log) == ["x", "y", "z"]

    def test_several_failures_are_all_reported(self, stage, hashes):
        plan = [stage(name, work=raising(R2medError(name))) for name in "abc"]
        assert execute(plan, 2, hashes).failed.keys() == set(plan)

    def test_a_missing_input_becomes_an_error_that_names_it(self, stage, hashes, log, tmp_path):
        lost = Stage("make", "lost", Artifact(tmp_path / "lost", folder=False),
                     lambda: {"raw": hashes.of(tmp_path / "raw.jsonl")}, lambda path: None)  # fmt: skip
        failed = execute([lost, stage("a")], 1, hashes).failed
        assert log == ["a"]
        assert type(failed[lost]) is R2medError
        assert str(failed[lost]) == f"make lost: {tmp_path / 'raw.jsonl'}: No such file or directory"

    def test_a_full_disk_becomes_an_error(self, stage, hashes):
        full = stage("a", work=raising(OSError(28, "No space left on device")))
        assert "No space left on device" in str(execute([full], 1, hashes).failed[full])

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_anything_else_passes_through(self, stage, hashes, log, error):
        with pytest.raises(error):
            execute([stage("a", work=raising(error())), stage("b")], 1, hashes)
        assert log == []

    @pytest.mark.parametrize("error", [R2medError("no"), KeyboardInterrupt()])
    def test_known_hashes_are_saved_whatever_happens(self, stage, hashes, tmp_path, monkeypatch, error):
        monkeypatch.setattr("r2med_pyserini.artifacts.SETTLED_NS", -(10**18))  # as if all had been written long ago
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

        assert execute([stage(f"s{number}", work=work) for number in range(7)], threads, hashes, observe).failed == {}
        assert max(at_once) == threads

    def test_independent_stages_run_side_by_side(self, stage, hashes):
        meeting = Barrier(3)
        plan = [stage(name, work=lambda: meeting.wait(10)) for name in "abc"]
        assert execute(plan, 3, hashes).failed == {}


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


class TestResource:
    """Stages that name the same resource, such as the one model in memory, are not built at once."""

    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_one_stage_at_a_time_is_built_with_it(self, stage, hashes, log, threads):
        lock, running, at_once = Lock(), [], []

        def work():
            with lock:
                running.append(1)
                at_once.append(len(running))
            Event().wait(0.01)
            with lock:
                running.pop()

        plan = [stage(name, work=work, resource="encoder") for name in "abcdef"]
        assert execute(plan, threads, hashes).failed == {}
        assert (at_once, sorted(log)) == ([1] * 6, list("abcdef"))

    def test_others_go_on_meanwhile(self, stage, hashes):
        meeting = Barrier(3)
        plan = [
            stage("a", work=lambda: meeting.wait(10), resource="encoder"),
            stage("b", work=lambda: meeting.wait(10), resource="other"),
            stage("c", work=lambda: meeting.wait(10)),
        ]
        assert execute(plan, 3, hashes).failed == {}

    def test_what_waits_for_it_keeps_no_thread_busy(self, stage, hashes, log):
        """Two threads: one has it, and the other does what needs it not."""
        gate, waited = Event(), []
        holders = [stage(name, work=lambda: waited.append(gate.wait(10)), resource="encoder") for name in "abc"]
        assert execute([*holders, stage("other", work=gate.set)], 2, hashes).failed == {}
        assert waited == [True] * 3 and sorted(log) == ["a", "b", "c", "other"]

    @pytest.mark.parametrize("threads", [1, 3])
    def test_a_failure_gives_it_back(self, stage, hashes, log, threads):
        failing = stage("a", work=raising(R2medError("broken")), resource="encoder")
        result = execute([failing, stage("b", resource="encoder"), stage("c", resource="encoder")], threads, hashes)
        assert (list(result.failed), log) == ([failing], ["b", "c"])

    def test_a_current_stage_neither_takes_nor_wants_it(self, stage, hashes, log):
        gate, waited = Event(), []
        current = stage("a", resource="encoder")
        execute([current], 1, hashes)
        after = stage("c", current, work=gate.set)
        holder = stage("b", work=lambda: waited.append(gate.wait(10)), resource="encoder")
        assert execute([holder, current, after], 2, hashes).failed == {}
        assert waited == [True] and sorted(log) == ["a", "b", "c"]

    def test_looks_come_before_builds_so_that_the_first_stage_gets_it(self, stage, hashes, log):
        """The one that comes first in the plan, though it is wanted last."""
        first = stage("first", on_demand=True, resource="encoder")
        second = stage("second", on_demand=True, resource="encoder")
        users = [stage("late", tools=(second,)), stage("early", tools=(first,))]
        assert execute([first, second, *users], 1, hashes).failed == {}
        assert log == ["first", "second", "late", "early"]

    def test_all_is_looked_at_before_anything_is_built(self, tmp_path, hashes):
        said = []

        def make(name):
            def recipe():
                said.append(f"look at {name}")
                return {}

            def build(path):
                said.append(f"build {name}")
                path.write_text(name)

            return Stage("make", name, Artifact(tmp_path / name, folder=False), recipe, build)

        assert execute([make(name) for name in "abc"], 1, hashes).failed == {}
        assert said[:3] == ["look at a", "look at b", "look at c"]
        assert [text for text in said if text.startswith("build")] == ["build a", "build b", "build c"]


class TestAfterwards:
    @pytest.fixture
    def tidied(self):
        return []

    def test_it_is_done_once_the_artifact_is_in_its_place(self, stage, hashes, tidied):
        a = stage("a", afterwards=lambda: tidied.append(a.artifact.path.read_text()))
        assert execute([a], 1, hashes).failed == {}
        assert tidied == ["a 1"]

    def test_not_for_a_stage_that_was_current(self, stage, hashes, tidied):
        execute([stage("a")], 1, hashes)
        execute([stage("a", afterwards=lambda: tidied.append(1))], 1, hashes)
        assert tidied == []

    def test_but_if_another_process_was_faster(self, stage, hashes, tidied):
        stage("a").make(hashes)
        assert stage("a", afterwards=lambda: tidied.append(1)).make(hashes) is False
        assert tidied == [1]

    def test_not_after_a_failure(self, stage, hashes, tidied):
        failing = stage("a", work=raising(R2medError("broken")), afterwards=lambda: tidied.append(1))
        assert list(execute([failing], 1, hashes).failed) == [failing]
        assert tidied == []

    def test_not_if_an_input_changed_meanwhile(self, stage, hashes, tidied):
        tool = stage("tool")
        tool.make(hashes)
        work = lambda: tool.artifact.path.write_text("x")  # noqa: E731
        user = stage("b", tools=(tool,), work=work, afterwards=lambda: tidied.append(1))
        with pytest.raises(R2medError, match="changed meanwhile"):
            user.make(hashes)
        assert tidied == []

    def test_what_the_system_refuses_is_an_error_with_the_stages_name(self, stage, hashes):
        a = stage("a", afterwards=raising(PermissionError(13, "Permission denied", "parts")))
        assert str(execute([a], 1, hashes).failed[a]) == "make a: parts: Permission denied"
        assert execute([stage("a")], 1, hashes).failed == {}


class TestStatus:
    def test_the_observer_may_ask_how_far_a_stage_has_come(self, stage, hashes, monkeypatch):
        monkeypatch.setattr(module, "TICK", 0.001)
        gate, heard = Event(), []

        def observe(progress):
            if progress.stage is None and progress.running:
                heard.extend(stage.status() for stage in progress.running)
                gate.set()

        execute([stage("a", work=lambda: gate.wait(10), status=lambda: "(3 of 9)")], 1, hashes, observe)
        assert set(heard) == {"(3 of 9)"}

    def test_most_stages_have_nothing_to_say(self, stage):
        assert stage("a").status() == ""


class TestTools:
    """Of `tool`, made on demand from `a`, and `b`, which is made from `a` with that tool."""

    @pytest.fixture
    def plan(self, stage):
        def make(b_version=1, tool_version=1, work=lambda: None):
            a = stage("a")
            tool = stage("tool", a, on_demand=True, work=work, version=tool_version)
            return [a, tool, stage("b", a, tools=(tool,), version=b_version)]

        return make

    @pytest.mark.parametrize("threads", [1, 4])
    def test_the_tool_of_a_stale_stage_is_built_before_it(self, plan, hashes, log, threads):
        assert execute(plan(), threads, hashes).failed == {}
        assert log == ["a", "tool", "b"]

    def test_the_tool_of_a_current_stage_is_not_built(self, plan, hashes, log):
        stages = plan()
        execute(stages, 1, hashes)
        log.clear()
        stages[1].artifact.remove()
        assert execute(stages, 1, hashes).failed == {}
        assert log == [] and not stages[1].artifact.path.exists()

    def test_a_current_tool_of_a_stale_stage_is_kept(self, plan, hashes, log):
        execute(plan(), 1, hashes)
        log.clear()
        assert execute(plan(b_version=2), 1, hashes).failed == {}
        assert log == ["b"]

    def test_a_stale_tool_of_a_stale_stage_is_built(self, plan, hashes, log):
        execute(plan(), 1, hashes)
        log.clear()
        assert execute(plan(b_version=2, tool_version=2), 1, hashes).failed == {}
        assert log == ["tool", "b"]

    def test_a_tool_made_otherwise_does_not_make_its_stage_stale(self, plan, hashes, log):
        execute(plan(), 1, hashes)
        log.clear()
        assert execute(plan(tool_version=2), 1, hashes).failed == {}
        assert log == []

    def test_a_stage_made_on_demand_that_nobody_uses_is_not_built(self, stage, hashes, log):
        execute([stage("a", on_demand=True), stage("b")], 1, hashes)
        assert log == ["b"]

    def test_a_tool_that_is_not_on_demand_is_built_in_any_case(self, stage, hashes, log):
        tool = stage("tool")
        plan = [tool, stage("b", tools=(tool,))]
        execute(plan, 1, hashes)
        log.clear()
        tool.artifact.remove()
        execute(plan, 1, hashes)
        assert log == ["tool"]

    @pytest.mark.parametrize("threads", [1, 4])
    def test_a_tool_of_several_stages_is_built_once(self, stage, hashes, log, threads):
        tool = stage("tool", on_demand=True)
        users = [stage(name, tools=(tool,)) for name in "abc"]
        assert execute([tool, *users], threads, hashes).failed == {}
        assert log[0] == "tool" and sorted(log[1:]) == ["a", "b", "c"]

    def test_tools_may_be_listed_after_the_stage_that_uses_them(self, plan, hashes, log):
        assert execute(plan()[::-1], 1, hashes).failed == {}
        assert log == ["a", "tool", "b"]

    @pytest.mark.parametrize("threads", [1, 4])
    def test_a_failed_tool_keeps_its_stage_from_running(self, plan, stage, hashes, log, threads):
        stages = plan(work=raising(R2medError("broken")))
        other = stage("other")
        failed = execute([*stages, stage("c", stages[2]), other], threads, hashes).failed
        assert {str(stage): str(error) for stage, error in failed.items()} == {"make tool": "broken"}
        assert sorted(log) == ["a", "other"]

    def test_a_failed_tool_is_not_tried_again_for_another_stage(self, stage, hashes):
        tries = []

        def work():
            tries.append(1)
            raise R2medError("broken")

        tool = stage("tool", on_demand=True, work=work)
        assert list(execute([tool, *(stage(name, tools=(tool,)) for name in "abc")], 1, hashes).failed) == [tool]
        assert tries == [1]

    def test_a_tool_that_cannot_be_built_is_not_missed_by_a_current_stage(self, plan, hashes, log):
        execute(plan(), 1, hashes)
        assert execute(plan(tool_version=2, work=raising(R2medError("broken"))), 1, hashes).failed == {}

    def test_a_stage_that_waits_for_its_tool_takes_no_thread(self, stage, hashes):
        meeting = Barrier(2)
        tool = stage("tool", on_demand=True, work=lambda: meeting.wait(10))
        plan = [stage("b", tools=(tool,)), tool, stage("other", work=lambda: meeting.wait(10))]
        assert execute(plan, 2, hashes).failed == {}

    def test_the_total_stays_the_same_whatever_is_demanded(self, plan, hashes):
        heard = []
        execute(plan(), 1, hashes, heard.append)
        execute(plan(), 1, hashes, heard.append)
        ended = [(progress.done, progress.total, str(progress.stage), progress.built) for progress in heard]
        assert ended == [
            (1, 3, "make a", True), (2, 3, "make tool", True), (3, 3, "make b", True),
            (1, 3, "make a", False), (2, 3, "make b", False),
        ]  # fmt: skip


class TestPreview:
    def test_everything_is_to_do_before_it_is_built(self, stage, hashes):
        a = stage("a")
        b = stage("b", a)
        assert preview([a, b], hashes) == {a: TO_DO, b: TO_DO}

    def test_everything_is_done_after_it_is_built(self, stage, hashes):
        a = stage("a")
        plan = [a, stage("b", a)]
        execute(plan, 1, hashes)
        assert set(preview(plan, hashes).values()) == {DONE}

    def test_a_stage_is_to_do_if_what_it_needs_is(self, stage, hashes):
        a = stage("a")
        b, c = stage("b", a), stage("c")
        execute([a, b, c], 1, hashes)
        a.artifact.remove()
        assert preview([a, b, c], hashes) == {a: TO_DO, b: TO_DO, c: DONE}

    def test_a_stage_is_to_do_even_if_what_it_needs_still_has_the_same_bytes(self, stage, hashes):
        a = stage("a")
        execute([a, stage("b", a)], 1, hashes)
        newer = stage("a", version=2)
        b = stage("b", newer)
        assert preview([newer, b], hashes) == {newer: TO_DO, b: TO_DO}

    def test_looking_builds_nothing(self, stage, hashes, log, tmp_path):
        preview([stage("a")], hashes)
        assert log == [] and not (tmp_path / "out").exists()

    def test_a_stage_whose_input_is_missing_is_to_do_and_no_error(self, hashes, tmp_path):
        lost = Stage("make", "lost", Artifact(tmp_path / "lost", folder=False),
                     lambda: {"raw": hashes.of(tmp_path / "raw.jsonl")}, lambda path: None)  # fmt: skip
        lost.artifact.make({"raw": "x"}, lambda path: path.write_text("x"), hashes)
        assert preview([lost], hashes) == {lost: TO_DO}

    @pytest.fixture
    def with_tool(self, stage):
        """`tool`, made on demand, `other`, which is one too, and `b`, which uses the first."""

        def make(b_version=1, tool_version=1):
            tool = stage("tool", on_demand=True, version=tool_version)
            return tool, stage("other", on_demand=True), stage("b", tools=(tool,), version=b_version)

        return make

    def test_a_tool_is_needed_by_a_stage_that_is_to_do(self, with_tool, hashes):
        tool, other, b = plan = with_tool()
        assert preview(plan, hashes) == {tool: TO_DO, other: NOT_NEEDED, b: TO_DO}

    def test_a_tool_that_is_there_is_done(self, with_tool, hashes):
        execute(list(with_tool()), 1, hashes)
        tool, other, b = plan = with_tool(b_version=2)
        assert preview(plan, hashes) == {tool: DONE, other: NOT_NEEDED, b: TO_DO}

    @pytest.mark.parametrize("change", ["removed", "made otherwise"])
    def test_the_tool_of_a_stage_that_is_done_is_not_needed(self, with_tool, hashes, change):
        execute(list(with_tool()), 1, hashes)
        tool, other, b = plan = with_tool(tool_version=2 if change == "made otherwise" else 1)
        if change == "removed":
            tool.artifact.remove()
        assert preview(plan, hashes) == {tool: NOT_NEEDED, other: NOT_NEEDED, b: DONE}

    @pytest.mark.parametrize("versions", [(1, 1), (1, 2), (2, 1), (2, 2)])
    def test_what_is_foretold_is_what_is_done(self, with_tool, hashes, log, versions):
        execute(list(with_tool()), 1, hashes)
        log.clear()
        plan = with_tool(*versions)
        foretold = [stage.subject for stage, state in preview(plan, hashes).items() if state == TO_DO]
        execute(list(plan), 1, hashes)
        assert log == foretold


class TestStage:
    def test_make_builds_what_is_not_current_and_says_so(self, stage, hashes, log):
        a = stage("a")
        assert not a.is_current(hashes)
        assert (a.make(hashes), a.make(hashes), log) == (True, False, ["a"])
        assert a.is_current(hashes) and not stage("a", version=2).is_current(hashes)

    def test_an_older_recipe_may_serve(self, tmp_path, hashes):
        artifact = Artifact(tmp_path / "a", folder=False)
        artifact.make({"v": 2}, lambda path: path.write_text("x"), hashes)
        stages = [
            Stage("make", "a", artifact, lambda: {"v": 1}, raising(AssertionError), serves=serves)
            for serves in (lambda have, want: have["v"] >= want["v"], lambda have, want: have["v"] <= want["v"])
        ]
        assert [stage.is_current(hashes) for stage in stages] == [True, False]
        assert stages[0].make(hashes) is False

    def test_an_input_that_changes_while_it_is_read_is_noticed(self, tmp_path, hashes, write):
        raw = write("raw.jsonl", "one")

        def build(path):
            path.write_text(raw.read_text())
            raw.write_text("two")

        made = Stage("make", "a", Artifact(tmp_path / "a", folder=False), lambda: {"raw": hashes.of(raw)}, build)
        with pytest.raises(R2medError, match="changed meanwhile"):
            made.make(hashes)
        assert not made.artifact.path.exists()

    def test_a_tool_that_changes_while_it_is_used_is_noticed(self, stage, hashes):
        tool = stage("tool")
        tool.make(hashes)
        user = stage("b", tools=(tool,), work=lambda: tool.artifact.path.write_text("x"))
        with pytest.raises(R2medError, match="changed meanwhile"):
            user.make(hashes)
        assert not user.artifact.path.exists()

    def test_an_input_that_is_not_there_makes_it_stale_and_then_fail(self, tmp_path, hashes):
        lost = Stage("make", "lost", Artifact(tmp_path / "lost", folder=False),
                     lambda: {"raw": hashes.of(tmp_path / "raw.jsonl")}, lambda path: None)  # fmt: skip
        assert lost.is_current(hashes) is False
        with pytest.raises(R2medError, match=r"make lost: .*raw\.jsonl: No such file or directory"):
            lost.make(hashes)
