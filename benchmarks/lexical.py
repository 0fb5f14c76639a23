"""Time and memory of the lexical path, beside other ways to the same rankings: `python benchmarks/lexical.py --quick`.

Data of R2MED's sizes is made first (synthetic.py). Every system then runs in processes of its own, one after another,
with files in the system's cache (an uncounted start of each comes first):

- r2med, `run bm25` and `run bm25-official`: cold from raw files in an empty workspace, warm with the indexes kept and
  the runs deleted, and once more with nothing left to do.
- Pyserini's commands, as `r2med run bm25 --display-commands` prints them: a process each to index, to search and to
  evaluate, dataset by dataset. Making the collection is not counted. Warm counts search and evaluation.
- The R2MED authors' method (peers.py), which keeps no index: warm is cold.
- bm25s (peers.py): cold makes and keeps its indexes, warm loads them; neither evaluates.

Peak memory is the resident memory of the largest process. It is checked that bm25 gives Pyserini's runs byte for byte,
and that bm25-official ranks as the authors' method does; the exit status is 1 if not. This module imports little before
it measures: a process counts the memory of the one that started it as its own.

A line warns if other processes took a share of the processors; processor times, which suffer less from that, are on
standard error and in the JSON file.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from figures import NOTHING, Cost, Row, busy, disturbance, machine, sentence, table

HERE = Path(__file__).parent
SYSTEMS = ("ours", "pyserini", "authors", "bm25s")
R2MED = (sys.executable, "-m", "r2med_pyserini")
PEERS = (sys.executable, str(HERE / "peers.py"))
PYSERINI_SAME = "of the runs of bm25 are Pyserini's byte for byte"
AUTHORS_SAME = "of the top-10 lists of bm25-official are the authors' in the same order"
AUTHORS_SHARED = "of the documents in the top-10 lists of bm25-official are in the authors'"
LEAST = {PYSERINI_SAME: 1.0, AUTHORS_SHARED: 0.99}  # the authors' scores are of single precision


@dataclass
class Bench:
    """One run of the benchmark: what is measured, and where."""

    suite: Path
    slugs: list[str]
    threads: int
    work: Path

    def measure(self, label: str, command: tuple[str, ...], home: Path) -> Cost:
        """Run a command with its workspace in `home`. What it prints is shown only if it fails; peers tell progress."""
        home.mkdir(parents=True, exist_ok=True)
        log = self.work / "log.txt"
        began, others = time.perf_counter(), -busy()
        with log.open("wb") as output:
            environment = {**os.environ, "R2MED_HOME": str(home)}
            errors = None if command[:2] == PEERS else output
            process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
        seconds, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
        others = max(0.0, others + busy() - cpu)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            print(log.read_text(encoding="utf-8", errors="replace")[-3000:], file=sys.stderr)
            sys.exit(f"{label}: exit status {process.returncode}: {shlex.join(command)}")
        peak = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        cost = Cost(seconds, cpu, peak, others)
        say(f"{label}: {cost.seconds:.2f} s, {cost.cpu:.2f} s of processor time, {cost.memory:.0f} MiB")
        return cost

    def start(self, *command: str) -> None:
        """Run a command for nothing but what it leaves in the system's cache of files."""
        environment = {**os.environ, "R2MED_HOME": str(self.work / "start")}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, env=environment, check=False, **quiet)

    def r2med(self, *words: str) -> tuple[str, ...]:
        """A command of r2med on the datasets that are measured."""
        datasets = [word for slug in self.slugs for word in ("--dataset", slug)]
        return (*R2MED, *words, "--suite", str(self.suite), "--threads", str(self.threads), *datasets)

    def ours(self) -> list[Row]:
        """r2med itself."""
        self.start(*R2MED, "run", "bm25", "--suite", "mini")
        rows = []
        for condition in ("bm25", "bm25-official"):
            home, command, name = self.work / condition, self.r2med("run", condition), f"r2med {condition}"
            cold = self.measure(f"{name} cold", command, home)
            shutil.rmtree(home / "runs")
            warm = self.measure(f"{name} warm", command, home)
            rows.append(Row(name, cold, warm, name))
            if condition == "bm25":
                done = self.measure(f"{name} with nothing to do", command, home)
                rows.append(Row(f"{name}, nothing to do", None, done))
        return [*rows, Row("r2med --help", None, self.measure("r2med --help", (*R2MED, "--help"), self.work / "start"))]

    def pyserini(self) -> list[Row]:
        """Pyserini's commands."""
        from r2med_pyserini import commands, conditions
        from r2med_pyserini.paths import Workspace
        from r2med_pyserini.suites import load_suite

        home = self.work / "pyserini"
        self.start(*R2MED, "pyserini", "search.lucene", "--help")
        self.measure("pyserini collection (not counted)", self.r2med("data"), home)
        workspace = Workspace(home)
        suite = load_suite(str(self.suite), workspace)
        (home / "indexes").mkdir()
        (home / "runs").mkdir()
        index, rest = NOTHING, NOTHING
        for dataset in suite.select(tuple(self.slugs)):
            lines = commands.for_cell(conditions.load("bm25"), suite, dataset, workspace, commands.OURS)
            costs = []
            for line in lines:
                words = shlex.split(line)
                costs.append(self.measure(f"pyserini {words[2]} {dataset.slug}", (*R2MED, *words[1:]), home))
            index, rest = index + costs[0], rest + costs[1] + costs[2]
        return [Row("Pyserini's commands, bm25", index + rest, rest, "r2med bm25")]

    def authors(self) -> list[Row]:
        """The authors' method."""
        command, out = (*PEERS, "authors", str(self.work)), self.work
        self.start(*command)
        cold = self.measure("authors", (*command, *self._folders()), out)
        return [Row("the R2MED authors' method", cold, cold, "r2med bm25-official")]

    def bm25s(self) -> list[Row]:
        """The library bm25s."""
        command, out = (*PEERS, "bm25s", str(self.work), "--threads", str(self.threads)), self.work
        self.start(*command)
        cold = self.measure("bm25s cold", (*command, *self._folders()), out)
        warm = self.measure("bm25s warm", (*command, "--warm", *self._folders()), out)
        return [Row("bm25s, its own tokenizer", cold, warm, "r2med bm25")]

    def _folders(self) -> list[str]:
        return [str(self.suite / slug) for slug in self.slugs]

    def check(self, systems: list[str]) -> dict:
        """How far the runs agree. To be called when everything is measured."""
        from r2med_pyserini.paths import Workspace
        from r2med_pyserini.trec import read_run

        found = {}
        if {"ours", "pyserini"} <= set(systems):
            ours = [Workspace(self.work / "bm25").run(self.suite.name, slug, "bm25") for slug in self.slugs]
            peers = [self.work / "pyserini" / "runs" / f"pyserini.{path.name}" for path in ours]
            same = [one.read_bytes() == other.read_bytes() for one, other in zip(ours, peers, strict=True)]
            found[PYSERINI_SAME] = sum(same) / len(same)
        if {"ours", "authors"} <= set(systems):
            identical, overlap = [], []
            for slug in self.slugs:
                home = Workspace(self.work / "bm25-official")
                ours = read_run(home.run(self.suite.name, slug, "bm25-official"))
                for query, documents in read_run(self.work / f"run.{slug}.authors.txt").items():
                    theirs, mine = list(documents)[:10], list(ours.get(query, {}))[:10]
                    identical.append(theirs == mine)
                    overlap.append(len(set(theirs) & set(mine)) / len(theirs))
            found[AUTHORS_SAME] = sum(identical) / len(identical)
            found[AUTHORS_SHARED] = sum(overlap) / len(overlap)
        return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_data(arguments: argparse.Namespace) -> list[Path]:
    """Make the datasets in a process of its own, and return their folders."""
    command = [sys.executable, HERE / "synthetic.py", "--scale", str(arguments.scale)]
    command += ["--data", arguments.data] if arguments.data else []
    done = subprocess.run([*command, "--datasets", *arguments.datasets], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return [Path(line) for line in done.stdout.splitlines()]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the dataset biology: about two minutes")
    parser.add_argument("--datasets", nargs="+", default=[], metavar="NAME", help="only these (default: all eight)")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="only these")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for r2med and bm25s (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the documents, to try the benchmark out")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the made datasets are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    arguments.datasets = arguments.datasets or (["biology"] if arguments.quick else [])
    return arguments


def main() -> None:
    arguments = parse()
    load = os.getloadavg()[0]
    folders = make_data(arguments)
    suite, slugs = folders[0].parent, [folder.name for folder in folders]
    with tempfile.TemporaryDirectory(prefix="work-", dir=suite.parent) as work:
        bench = Bench(suite, slugs, arguments.threads, Path(work))
        rows = [row for system in SYSTEMS if system in arguments.systems for row in getattr(bench, system)()]
        agreement = bench.check(arguments.systems)
    facts = machine(arguments.threads, load)
    about = f"Datasets: {', '.join(slugs)}; scale {arguments.scale:g}. {sentence(facts)}"
    print(f"{table(rows)}\n\n{about}{disturbance(rows)}")
    print("".join(f"\n{share:.2%} {what}." for what, share in agreement.items()))
    if arguments.json:
        figures = {"machine": facts, "datasets": slugs, "scale": arguments.scale, "agreement": agreement}
        figures["rows"] = [asdict(row) | {"memory": row.memory} for row in rows]
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if any(share < LEAST.get(what, 0) for what, share in agreement.items()):
        sys.exit("the systems disagree: their times are worth nothing")


if __name__ == "__main__":
    main()
