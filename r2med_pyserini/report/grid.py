"""Tables as text, Markdown or CSV: the one place that prints them."""

import csv
import io
from collections.abc import Iterable, Sequence

TEXT, MARKDOWN, CSV = "text", "markdown", "csv"


def grid(header: Sequence[str], rows: Iterable[Sequence[object]], form: str = TEXT, left: Sequence[int] = (0,)) -> str:
    """Cells as they are, under their header. The columns `left` (negative: from the end) are aligned left."""
    rows = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if form == CSV:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        return text.getvalue().rstrip("\n")
    from tabulate import tabulate

    to_left = {column % len(header) for column in left}
    align = ["left" if column in to_left else "right" for column in range(len(header))]
    style = "github" if form == MARKDOWN else "simple"
    return tabulate(rows, header, tablefmt=style, disable_numparse=True, colalign=align if rows else None)
