import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini.conditions import parse
from r2med_pyserini.evaluation import Scores
from r2med_pyserini.report import latex, table
from r2med_pyserini.report.latex import escape
from r2med_pyserini.results import Contrast, Results
from r2med_pyserini.significance import difference
from r2med_pyserini.suites import Dataset, Suite

TEXT = "title: t\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
HOSTILE = "\\input{/etc/passwd} %_&#$ {a} ^~ <script> | \"q\" `b` 'c' ''d'' -- --- \\end{table} é\n\\%\x00\x1b[0m"
DAGGER, DOUBLE = r"\makebox[0pt][l]{$^{\dagger}$}", r"\makebox[0pt][l]{$^{\ddagger}$}"


def condition(name):
    return parse(TEXT, Path(f"{name}.yaml"))


def scores(value, judged=4, evaluated=4):
    return value if value is None else Scores(judged, evaluated, {"nDCG@10": value}, {})


@pytest.fixture
def suite(tmp_path) -> Suite:
    datasets = tuple(Dataset(slug, slug.title(), slug[:3], tmp_path / slug) for slug in ("alpha", "beta"))
    return Suite("s_1", "two datasets", datasets, "s_1")


@pytest.fixture
def made(suite):
    """Results of conditions with scores on the datasets, or on the first few."""

    def make(cells: dict[str, tuple], baseline=None, contrasts=(), of=suite) -> Results:
        rows = table.rows(
            table.entry(condition(name), of, dataset, scores(value), None)
            for name, values in cells.items()
            for dataset, value in zip(of.datasets, values, strict=False)
        )
        shown = tuple(entry.dataset for entry in rows[0].entries)
        return Results(of, shown, "nDCG@10", rows, baseline, list(contrasts), [], [], {}, [], {}, {})

    return make


def contrast(name, dataset, better: bool, p=0.01) -> Contrast:
    return Contrast(name, dataset, difference([0.5 + better, 0.6], [1.0, 0.6]), p)


def body(text: str) -> list[list[str]]:
    """The cells of the rows between the rules."""
    rows = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].strip().splitlines()
    assert all(row.endswith(r" \\") for row in rows)
    return [re.split(r"(?<!\\) & ", row.removesuffix(r" \\")) for row in rows]


def caption(text: str) -> str:
    return text.partition("\\caption{")[2].partition("\n")[0].removesuffix("}")


def faults(text: str) -> list[str]:
    """What is out of balance: braces, environments, mathematics, the cells of rows."""
    found, depth, inside = [], 0, []
    plain = re.sub(r"(?<!\\)(\\\\)*%.*", "", text)
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", plain):
        if kind == "begin":
            inside.append(name)
        elif not inside or inside.pop() != name:
            found.append(f"\\end{{{name}}}")
    bare = re.sub(r"\\[^a-zA-Z]", "", plain)
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            found.append("}")
            break
    found += [f"open: {inside}"] * bool(inside) + [f"depth {depth}"] * (depth > 0) + ["$"] * (bare.count("$") % 2)
    columns = re.findall(r"\\begin\{tabular\}\{(l)(r*)\}", plain)
    rows = [line for line in plain.splitlines() if line.endswith(r"\\")]
    wanted = len("".join(columns[0])) if columns else 0
    return found + [row for row in rows if len(re.findall(r"(?<!\\)&", row)) + 1 != wanted]


def compiled(folder: Path, text: str) -> None:
    """Compile a table in a paper of two columns. Skips where there is no LaTeX."""
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("needs pdflatex (Debian: apt-get install texlive-latex-recommended)")
    head = "\\documentclass[twocolumn]{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (folder / "paper.tex").write_text(f"{head}{text}\n\\end{{document}}\n", encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=120
    )
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("needs LaTeX's booktabs (Debian: apt-get install texlive-latex-recommended)")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout and (folder / "paper.pdf").stat().st_size > 1000


class TestEscape:
    @pytest.mark.parametrize(
        ("text", "escaped"),
        [
            ("bm25-rm3", "bm25-rm3"),
            ("a_b&c%d#e$f{g}", r"a\_b\&c\%d\#e\$f\{g\}"),
            (r"\input{x}", r"\textbackslash{}input\{x\}"),
            ("a^b~c", r"a\textasciicircum{}b\textasciitilde{}c"),
            ("<script>|", r"\textless{}script\textgreater{}\textbar{}"),
            ("a -- b --- c", r"a -{}- b -{}-{}- c"),
            ("''x'' it's", r"'{}'x'{}' it's"),
            ('"q" `b`', r"{\char34}q{\char34} {\char96}b{\char96}"),
            ("a\nb\r\n\tc\x00d\x1b[0m\u2028e", "a b c d [0m e"),
            ("é", "é"),
            ("", ""),
        ],
    )
    def test_what_latex_reads_as_text(self, text, escaped):
        assert escape(text) == escaped

    def test_nothing_gets_out(self):
        assert faults(escape(HOSTILE)) == [] and "\n" not in escape(HOSTILE)
        assert not re.search(r"\\(?!text|char)[a-z]", escape(HOSTILE))

    def test_it_compiles(self, tmp_path):
        compiled(tmp_path, escape(HOSTILE))


class TestMarks:
    def test_best_is_bold_and_second_underlined(self, made):
        text = latex.render(made({"a": (0.25, 0.5), "b": (0.75, 0.4), "c": (0.5, 0.1)}))
        assert body(text) == [
            ["a", "25.00", r"\textbf{50.00}", r"\underline{37.50}"],
            ["b", r"\textbf{75.00}", r"\underline{40.00}", r"\textbf{57.50}"],
            ["c", r"\underline{50.00}", "10.00", "30.00"],
        ]

    def test_what_looks_alike_is_marked_alike(self, made):
        text = latex.render(made({"a": (0.25001,), "b": (0.25002,), "c": (0.2,), "d": (0.20004,)}))
        assert [row[1] for row in body(text)] == [r"\textbf{25.00}"] * 2 + [r"\underline{20.00}"] * 2

    def test_one_condition_is_not_the_best(self, made):
        text = latex.render(made({"a": (0.25, 0.5)}))
        assert body(text) == [["a", "25.00", "50.00", "37.50"]] and "bold" not in text

    def test_significance_is_a_dagger(self, made):
        contrasts = [
            contrast("b", "alpha", True), contrast("b", "beta", False), contrast("b", None, True),
            contrast("c", "alpha", True, p=0.05), contrast("c", "beta", True, p=None),
        ]  # fmt: skip
        cells = {"bm_25": (0.25, 0.5), "b": (0.5, 0.25), "c": (0.3, 0.6)}
        text = latex.render(made(cells, "bm_25", contrasts))
        assert body(text) == [
            [r"bm\_25", "25.00", r"\underline{50.00}", r"\underline{37.50}"],
            ["b", rf"\textbf{{50.00}}{DAGGER}", f"25.00{DOUBLE}", rf"\underline{{37.50}}{DAGGER}"],
            ["c", r"\underline{30.00}", r"\textbf{60.00}", r"\textbf{45.00}"],
        ]
        assert r"better (worse) than bm\_25" in caption(text) and "Holm" in caption(text)

    def test_without_a_baseline_nothing_is_said_of_significance(self, made):
        assert "dagger" not in latex.render(made({"a": (0.25, 0.5), "b": (0.5, 0.25)}))


class TestTable:
    def test_missing_scores_are_dashes(self, made):
        text = latex.render(made({"a": (None, 0.5), "b": (None, None)}))
        assert body(text) == [["a", "--", r"\textbf{50.00}"], ["b", "--", "--"]]
        assert faults(text) == []

    def test_a_mean_stands_where_the_suite_is_whole(self, made, suite):
        assert [row[-1] for row in body(latex.render(made({"a": (0.2, 0.4), "b": (0.2, None)})))] == [
            r"\textbf{30.00}", "--",
        ]  # fmt: skip
        single = replace(suite, datasets=suite.datasets[:1])
        text = latex.render(made({"a": (0.2,)}, of=single))
        assert body(text) == [["a", "20.00"]] and "Mean" not in text

    @pytest.mark.parametrize("sample", [False, True])
    def test_a_sample_is_not_taken_for_the_benchmark(self, made, suite, sample):
        text = latex.render(made({"a": (0.2, 0.4)}, of=replace(suite, sample=sample)))
        assert (r"\emph{not} on R2MED" in caption(text)) is sample

    def test_the_caption_names_suite_and_measure(self, made, suite):
        assert caption(latex.render(made({"a": (0.2, 0.4)}))).startswith(r"nDCG@10 $\times$ 100 on s\_1.")
        benchmark = replace(suite, name="r2med")
        assert "on R2MED." in caption(latex.render(made({"a": (0.2, 0.4)}, of=benchmark)))
        assert r"\label{tab:s-1-ndcg-10}" in latex.render(made({"a": (0.2, 0.4)}))

    def test_queries_without_hits_are_told(self, made):
        found = made({"a": (0.2, 0.4)})
        assert "without hits" not in caption(latex.render(found))
        entry = found.rows[0].entries[0]
        found.rows[0].entries[0] = replace(entry, scores=scores(0.2, judged=4, evaluated=3))
        assert "Queries without hits count 0." in caption(latex.render(found))

    @pytest.mark.parametrize(("number", "environment"), [(1, "table"), (5, "table"), (8, "table*"), (20, "table*")])
    def test_a_wide_table_takes_both_columns(self, made, suite, number, environment):
        datasets = tuple(replace(suite.datasets[0], slug=f"d_{n}", short=f"d_{n}") for n in range(number))
        text = latex.render(made({"a": (0.2,) * number, "b": (None,) * number}, of=replace(suite, datasets=datasets)))
        assert rf"\begin{{{environment}}}[t]" in text and faults(text) == []

    def test_every_line_that_latex_reads_is_balanced(self, made):
        cells = {"a_b": (0.25, 0.5), "c+d": (0.5, None), "e--f": (None, None)}
        text = latex.render(made(cells, "a_b", [contrast("c+d", "alpha", True)]))
        assert faults(text) == []
        assert [row[0] for row in body(text)] == [r"a\_b", "c+d", "e-{}-f"]

    @pytest.mark.parametrize(
        "damage",
        [lambda t: t.replace("}\n", "\n", 3), lambda t: t.replace(" & ", " ", 1), lambda t: t + "$"],
    )
    def test_the_check_of_balance_sees_faults(self, made, damage):
        assert faults(damage(latex.render(made({"a": (0.25, 0.5)})))) != []

    def test_it_compiles(self, made, suite, tmp_path):
        datasets = tuple(replace(suite.datasets[0], slug=f"d_{n}", short=f"data_{n}") for n in range(8))
        cells = {f"bm25_{n}--x": (n / 10,) * 8 for n in range(4)}
        contrasts = [contrast("bm25_1--x", "d_0", True), contrast("bm25_2--x", None, False)]
        text = latex.render(made(cells, "bm25_0--x", contrasts, of=replace(suite, datasets=datasets, sample=True)))
        compiled(tmp_path, text)
