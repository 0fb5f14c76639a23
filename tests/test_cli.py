"""What the console script makes of errors and answers, in this process; commands themselves are in end_to_end/."""

import errno
import sys

import pytest
from click.testing import CliRunner

from r2med_pyserini import cli
from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.published import System, figures
from r2med_pyserini.report.evaluation import judge


@pytest.fixture
def ends(monkeypatch, capsys):
    """What `main` says, and its exit status, if a command ends in an error."""

    def ends(error: BaseException) -> tuple[int, str]:
        def broken(standalone_mode):
            raise error

        monkeypatch.setattr(cli.cli, "main", broken)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        assert out == ""
        return caught.value.code, err

    return ends


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (R2medError("no"), 1, "Error: no\n"),
        (BadInput(["f:1: x", "f:2: y"]), 1, "Error: f:1: x\nf:2: y\n"),
        (UsageError("no"), 2, "Error: no\n"),
        (PermissionError(errno.EACCES, "Permission denied", "runs"), 1, "Error: runs: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "Error: No space left on device\n"),
        (OSError("odd"), 1, "Error: odd\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_a_user_can_mend_is_one_message(ends, error, status, said):
    assert ends(error) == (status, said)


def test_anything_else_is_a_defect_and_says_where(monkeypatch):
    monkeypatch.setattr(cli.cli, "main", lambda standalone_mode: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.fixture
def call(monkeypatch, capsys, workspace):
    """`r2med WORDS...` in this process: exit status, standard output and error."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["r2med", *map(str, words)])
        try:
            cli.main()
            status = 0
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return call


RUN, QRELS = "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n", "q1 0 d2 1\nq2 0 d9 2\n"


@pytest.fixture
def files(write):
    """A run, and the words that name its qrels."""
    return write("run.txt", RUN), "--qrels", write("qrels.txt", QRELS)


class TestEvalCompare:
    def test_with_another_run(self, call, files, write):
        other = write("other.txt", "q1 Q0 d2 1 2.0 t\nq2 Q0 d8 1 1.0 t\n")
        status, out, _ = call("eval", *files, "--compare", other, "--measure", "MRR")
        assert (status, out.splitlines()[-1].split()) == (0, ["MRR", "0.2500", "0.5000", "-0.2500", "0", "1", "1"])

    @pytest.mark.parametrize("words", [["--per-query"], ["--format", "json"], ["--per-query", "--format", "json"]])
    def test_prints_neither_queries_nor_json(self, call, files, words):
        status, out, err = call("eval", *files, "--compare", files[0], *words)
        assert (status, out) == (2, "")
        assert err == "Error: --compare prints a table; leave --per-query and --format json away\n"

    def test_a_tolerance_is_not_for_runs(self, call, files):
        status, out, err = call("eval", *files, "--compare", files[0], "--tolerance", "0.1")
        assert (status, out, err) == (2, "", "Error: --tolerance is for --compare with a published system\n")

    def test_a_tolerance_is_not_for_a_run_alone(self, call, files):
        assert call("eval", *files, "--tolerance", "0.1")[0] == 2

    @pytest.fixture
    def against_published(self, write):
        """Holds a run whose R@10 is 0.0002 above the published one of BM25 on Biology against that, within a tolerance.

        Every query has one relevant document, and the run has it for as many queries as that takes.
        """
        queries = 10_000
        known = figures(System("r2med", "bm25"), "r2med", "biology")["R@10"]
        found = round((known + 0.0002) * queries)
        qrels = write("qrels.txt", "".join(f"q{number} 0 d 1\n" for number in range(queries)))
        run = write("run.txt", "".join(f"q{number} Q0 d 1 1 t\n" for number in range(found)))

        def judged(tolerance: float | None):
            return judge(qrels, "r2med", "biology", run, ("R@10",), False, "text", "r2med:bm25", tolerance)

        return judged

    @pytest.mark.parametrize(
        ("tolerance", "verdict"),
        [
            (None, "OK"),
            (0.0003, "OK"),
            (0.0001, "OKish"),
            (0.00001, "FAIL"),
            (0.0, "FAIL"),
        ],
    )
    def test_a_published_figure_is_matched_within_the_tolerance(self, against_published, tolerance, verdict):
        outcome = against_published(tolerance)
        assert outcome.text.split()[-1] == verdict
        assert outcome.good is (verdict != "FAIL")

    def test_published_figures_belong_to_a_dataset(self, call, files):
        status, _, err = call("eval", *files, "--compare", "r2med:bm25")
        assert (status, "say --dataset" in err) == (2, True)

    @pytest.mark.parametrize("words", [["run.txt", "empty.txt"], ["empty.txt", "run.txt"]])
    def test_a_run_without_a_row_is_an_error_on_either_side(self, call, files, write, words):
        write("empty.txt", "\n")
        run, other = (files[0].with_name(name) for name in words)
        status, out, err = call("eval", run, *files[1:], "--compare", other)
        assert (status, out) == (1, "")
        assert "empty.txt: holds no row; a run has lines of 6 columns" in err


def test_eval_of_a_run_without_a_row_is_an_error(call, files, write):
    status, out, err = call("eval", write("empty.txt", ""), *files[1:])
    assert (status, out, "empty.txt: holds no row" in err) == (1, "", True)


class TestPrompts:
    @pytest.fixture
    def made(self, workspace):
        left = workspace.root / "runs" / ".tmp.new.run.mini-biology.bm25.txt"
        left.parent.mkdir()
        left.write_text("half")
        return left

    def test_an_answer_that_does_not_come_ends_it(self, ends, made, workspace):
        """End of input, or Ctrl-C at the prompt."""
        done = CliRunner().invoke(cli.cli, ["clean"], input="", standalone_mode=False)
        assert made.exists()
        assert ends(done.exception) == (1, "Aborted: a question was not answered.\n")

    @pytest.mark.parametrize(("answer", "stays"), [("n", True), ("", True), ("y", False)])
    def test_an_answer_is_obeyed(self, made, answer, stays):
        done = CliRunner().invoke(cli.cli, ["clean"], input=f"{answer}\n", catch_exceptions=False)
        assert (done.exit_code, made.exists()) == (0, stays)
