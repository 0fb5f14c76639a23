"""The command line: parse, call, print. Heavy imports happen inside the commands that need them."""

import os
import shlex
import sys
from pathlib import Path

import click

from . import __version__, cli_log, cli_pages
from .errors import R2medError, UsageError, system_error
from .options import CONDITIONS, DATASET, EVERYTHING, MODELS, SUITE, THREADS, form_of
from .paths import Workspace
from .printing import finish, progress


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="r2med")
def cli() -> None:
    """R2MED with Pyserini: index, search and evaluate the eight datasets, and hold the scores against known ones."""


@cli.command("list")
@click.option("--suite", default=None, metavar="NAME|FOLDER", help="Show the datasets of this suite.")
def list_(suite: str | None) -> None:
    """Show conditions and suites, or the datasets of one suite."""
    from . import conditions
    from .experiments import at_hand
    from .report.grid import grid
    from .suites import builtin_names, load_suite

    workspace = Workspace.default()
    if suite is None:
        rows = [
            (condition.name, condition.title, "yes" if at_hand(condition) else "no")
            for condition in conditions.load_all(conditions.names())
        ]
        click.echo(grid(("condition", "what it is", "model here"), rows, left=(0, 1, 2)))
        rows = [(name, load_suite(name, workspace).title) for name in builtin_names()]
        click.echo("\n" + grid(("suite", "what it is"), rows, left=(0, 1)))
        return
    found = load_suite(suite, workspace)
    rows = [
        (d.slug, d.task, d.queries, d.documents, d.revision, "no" if d.missing() else "yes") for d in found.datasets
    ]
    click.echo(f"{found.name}: {found.title}\n")
    click.echo(grid(("dataset", "task", "queries", "documents", "revision", "here"), rows, left=(0, 1, 4, 5)))


@cli.command()
@CONDITIONS
@SUITE
@DATASET
@EVERYTHING
@click.option("--dry-run", is_flag=True, help="Show the stages and which are to be done; do nothing.")
@click.option("--display-commands", is_flag=True, help="Show the plain Pyserini commands that do the same; do nothing.")
@MODELS
@THREADS
def run(
    conditions: tuple[str, ...],
    suite: str,
    datasets: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    display_commands: bool,
    threads: int,
    **how,
) -> None:
    """Run conditions on a suite: convert, encode, index, search, evaluate. Done stages are not done again."""
    from .encoders.base import Settings
    from .experiments import Experiment

    encoding = Settings(threads=threads, **how)
    experiment = Experiment.prepare(conditions, everything, suite, datasets, threads, encoding=encoding)
    if display_commands:
        click.echo("\n".join(experiment.commands()))
    elif dry_run:
        click.echo("\n".join(experiment.preview()))
    else:
        finish(experiment.execute(progress()))


@cli.command()
@click.argument("names", nargs=-1, metavar="ENCODER|CONDITION...")
@SUITE
@DATASET
@click.option("--shard", metavar="I/N", help="Only the I-th of N shares of the work, for N processes or machines.")
@MODELS
@THREADS
def encode(
    names: tuple[str, ...], suite: str, datasets: tuple[str, ...], shard: str | None, threads: int, **how
) -> None:
    """Encode documents and queries ahead of `run`; a share of them may be done by each of several machines."""
    from .encoders.base import Settings
    from .encoding import run as encode_all
    from .report.progress import Counter

    settings = Settings(threads=threads, **how)
    finish(encode_all(names, suite, datasets, settings, shard, progress(), Counter(sys.stderr)))


@cli.command()
@SUITE
@DATASET
@click.option("--from", "source", type=click.Path(path_type=Path), help="Take the files from this folder.")
@THREADS
def data(suite: str, datasets: tuple[str, ...], source: Path | None, threads: int) -> None:
    """Fetch R2MED from the Hugging Face Hub (or take files you have), verify it, and convert it."""
    from .datasets import fetch

    finish(fetch(suite, datasets, threads, progress(), source))


@cli.command()
@SUITE
@DATASET
@THREADS
def stats(suite: str, datasets: tuple[str, ...], threads: int) -> None:
    """Describe the datasets: the figures of the paper's table beside the measured ones."""
    from . import datasets as described

    finish(described.stats(suite, datasets, threads, progress()))


@cli.command()
@click.argument("run_file", metavar="RUN", type=click.Path(dir_okay=False, path_type=Path))
@SUITE
@click.option("--dataset", required=True, metavar="NAME", help="Dataset that the run belongs to.")
@click.option("--hits", type=click.IntRange(1), default=1000, show_default=True, help="Documents a query may have.")
@form_of("text", "json")
def validate(run_file: Path, suite: str, dataset: str, hits: int, form: str) -> None:
    """Report every fault of a TREC run, with line numbers; exit status 1 if there is one."""
    from .datasets import validate as check

    finish(check(run_file, suite, dataset, hits, form))


@cli.command("import")
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--split", default="test", show_default=True, help="Which qrels of BEIR's layout.")
def import_(source: str, folder: Path, split: str) -> None:
    """Convert SOURCE into R2MED's layout in the new FOLDER: a folder in BEIR's layout, or ir_datasets:ID."""
    from .importing import import_dataset

    counts = import_dataset(source, folder, split)
    click.echo(f"{folder}: " + ", ".join(f"{count:,} rows in {name}" for name, count in counts.items()))
    click.echo(f"Try it: r2med run bm25 --suite {shlex.quote(str(folder))}")


@cli.command()
@click.option("--source", help="r2med (the authors) or mteb.")
@click.option("--retriever", help="Only this retriever.")
@click.option("--gar-method", help="Only this kind of generation-augmented retrieval; '' for none.")
@click.option("--gar-llm", help="Only with this LLM; '' for none.")
@click.option("--reranker", help="Only this reranker; '' for none.")
@click.option("--depth", help="Only with so many documents reranked.")
@click.option("--measure", default="nDCG@10", show_default=True, help="Measure that the table shows.")
@form_of("text", "markdown", "csv")
def published(measure: str, form: str, **wanted: str | None) -> None:
    """Show published scores, a line a system: those of R2MED's authors, and of MTEB."""
    from .report import published as shown

    click.echo(shown.render(measure, form, **wanted))


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@SUITE
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def target(name: str, suite: str, options: tuple[str, ...]) -> None:
    """Run what a Make target names: CONDITION-all, or CONDITION-DATASET. OPTIONS are those of `run`."""
    from .experiments import split_target

    condition, dataset = split_target(name, suite)
    words = [condition, "--suite", suite, *(["--dataset", dataset] if dataset else []), *options]
    run.main(words, prog_name="r2med run", standalone_mode=False)


@cli.command()
@CONDITIONS
@SUITE
@DATASET
@click.option("--measure", default="nDCG@10", show_default=True, help="Measure that the table shows.")
@form_of("text", "markdown", "md", "csv", "json", "html", "latex")
@click.option("--baseline", metavar="NAME", help="html, latex: test against this condition (bm25).")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there.")
def report(conditions: tuple[str, ...], suite: str, datasets: tuple[str, ...], **how) -> None:
    """Show the scores of runs that exist and are current; exit status 1 if one is missing or fails."""
    from .experiments import Experiment
    from .reporting import report as reported

    if conditions:
        experiment = Experiment.prepare(conditions, False, suite, datasets, need_data=False)
    else:
        experiment = Experiment.of_all(suite, datasets)
    finish(reported(experiment, only_present=not conditions, **how))


@cli.command("eval")
@click.argument("run_file", metavar="RUN", type=click.Path(dir_okay=False, path_type=Path))
@SUITE
@click.option("--dataset", metavar="NAME", help="Evaluate against the qrels of this dataset of the suite.")
@click.option(
    "--qrels",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Evaluate against this file: TREC, or R2MED's qrels.jsonl.",
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    help="Measure to show (may be repeated): nDCG@k, R@k, P@k, MAP@k, nDCG, MAP, MRR.",
)
@click.option("--per-query", is_flag=True, help="Show every query too.")
@form_of("text", "json")
@click.option(
    "--compare",
    metavar="RUN|SOURCE:RETRIEVER",
    help="Hold it against another run, or a published system such as r2med:bm25.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=None,
    help="Difference from a published figure that is OK.",
)
def eval_(suite: str, dataset: str | None, qrels: Path | None, **how) -> None:
    """Evaluate a TREC run of any tool, as trec_eval -c does; exit status 1 if it differs from a published system."""
    from .datasets import converted
    from .report.evaluation import judge

    if (dataset is None) == (qrels is None):
        raise UsageError("say what to evaluate against: either --dataset NAME (with --suite) or --qrels FILE")
    finish(judge(qrels or converted(suite, dataset).qrels, suite, dataset, **how))


@cli.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@SUITE
@DATASET
@click.option(
    "--qrels", type=click.Path(dir_okay=False, path_type=Path), help="Evaluate two run files against this file."
)
@click.option("--measure", "measures", multiple=True, help="Measure to compare (may be repeated): nDCG@10 and R@100.")
@click.option(
    "--top", type=click.IntRange(0), default=5, show_default=True, help="So many queries of largest gain and loss."
)
@form_of("text", "json", "csv")
def compare(a: str, b: str, suite: str, datasets: tuple[str, ...], **how) -> None:
    """Compare the current runs of two conditions, or two run files, query by query, with significance tests."""
    from .comparing import compare as compare_systems

    finish(compare_systems(a, b, suite, datasets, **how))


@cli.command()
@click.argument("runs", nargs=-1, metavar="RUN...", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--method", default="rrf", show_default=True, help="rrf, combsum, combmnz, weighted or interpolation.")
@click.option(
    "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File for the fused run."
)
@click.option("--hits", type=click.IntRange(1), help="Documents a query that are kept; 1000 unless said otherwise.")
@click.option("--depth", type=click.IntRange(1), help="Documents a query that count of each run; all of them.")
@click.option("--k", type=float, help="rrf: 60 unless said otherwise.")
@click.option("--alpha", type=float, help="interpolation: weight of the first run; 0.5 unless said otherwise.")
@click.option("--weight", "weights", multiple=True, type=float, help="weighted: of each run, in their order.")
@click.option("--normalization", help="min-max, z-score or none.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it is there.")
def fuse(runs: tuple[Path, ...], method: str, output: Path, overwrite: bool, **settings) -> None:
    """Fuse TREC runs of any tools into one."""
    from .composites import fusion_of
    from .fusion import fuse_files

    given = {key: value for key, value in settings.items() if value not in (None, ())}
    notes = fuse_files(runs, fusion_of(method, tuple(map(str, runs)), given), output, overwrite)
    click.echo("\n".join([*(f"Note: {note}" for note in notes), str(output)]))


@cli.command()
@CONDITIONS
@SUITE
@EVERYTHING
@click.option("--yes", is_flag=True, help="Do not ask.")
def record(conditions: tuple[str, ...], suite: str, everything: bool, yes: bool) -> None:
    """Write the scores of complete, current runs into the conditions' files as their recorded figures."""
    from . import recording
    from .experiments import Experiment

    experiment = Experiment.prepare(conditions, everything, suite, ())
    for name, condition in experiment.record().items():
        new = {experiment.plan.suite.name: condition.recorded[experiment.plan.suite.name]}
        click.echo(f"{condition.file}:\n{recording.block(new)}")
        if yes or click.confirm(f"Record this for {name}?"):
            recording.write(condition)


@cli.command()
def doctor() -> None:
    """Check this machine: versions, Java, memory, disk, data; exit status 1 if something is wrong."""
    from . import doctor as checks

    findings = list(checks.examine(Workspace.default()))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        click.echo(f"{'ok ' if finding.good else 'BAD'}  {finding.name:<{width}}  {finding.text}")
    if not all(finding.good for finding in findings):
        sys.exit(1)


@cli.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("module")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def pyserini(module: str, arguments: tuple[str, ...]) -> None:
    """Run any Pyserini module with our Java: `r2med pyserini search.lucene --index ...`."""
    from .passthrough import run_module

    run_module(module, arguments)


@cli.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(yes: bool) -> None:
    """Remove collections, indexes, runs and scores that r2med made; your own files and data/ stay."""
    from .cleaning import made_here, remove

    found = made_here(Workspace.default())
    if not found:
        click.echo("nothing to remove")
    elif yes or click.confirm(
        f"Remove {len(found)} collections, indexes, runs and scores below {Workspace.default().root.resolve()}?"
    ):
        remove(Workspace.default(), found)
        click.echo(f"removed {len(found)}")


for _command in (cli_log.show, cli_log.log, cli_log.verify_log, cli_log.regressions, cli_pages.docs):
    cli.add_command(_command)


def _open_closed_streams() -> None:
    """A caller may have closed some (`2>&-`); what we say goes nowhere then, and our files get no such number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process


def main() -> None:
    """The console script: one clear message and an exit status for everything that a user can mend."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    try:
        cli.main(standalone_mode=False)
        sys.stdout.flush()
    except R2medError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_status)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error, click.Abort) and not isinstance(error.__cause__, KeyboardInterrupt):
            click.echo("Aborted: a question was not answered.", err=True)
            sys.exit(1)
        click.echo("\nInterrupted. What is done is kept: the same command goes on from here.", err=True)
        sys.stderr.flush()
        os._exit(130)  # threads may be inside Java, where Python cannot stop them
    except BrokenPipeError:  # the reader of our output has gone (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {system_error(error)}", err=True)
        sys.exit(1)
