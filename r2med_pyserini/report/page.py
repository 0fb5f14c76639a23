"""Pages in HTML: each is one file that opens from disk, with its style and scripts inside, and asks nobody for more.

`page` writes a whole page around a body; `render` writes parts of one. Both fill Jinja2 templates of `templates/`,
which escape every text. What is HTML already is `Markup`.

A body may use what `assets/site.css` and `assets/site.js` know:

- `<div class="copy"><pre><code>...`: gets a button that copies the text of the `code` as it stands; `data-what` names
  it for screen readers, and with the class `wrap` long lines are broken where they are shown;
- `<table class="sortable">` with `<th data-sort="text">` or `<th data-sort="number">`: gets buttons that sort its rows
  by a column, by a cell's `data-value` where it has one; rows without a number stay at the end;
- `<div class="scroll" role="region" aria-label="..." tabindex="0">` around a wide table or picture: it scrolls alone;
- the classes `note`, `warn`, `muted`, `small`, `figure`, `tag`, `facts` (of a `dl`), `verdict` with `data-verdict`.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..paths import PACKAGE

TEMPLATES = PACKAGE / "report" / "templates"
ASSETS = PACKAGE / "report" / "assets"
NO_FIGURE = "–"


@dataclass(frozen=True)
class Link:
    """A link of a page's head; without `href` it is where one is."""

    text: str
    href: str | None = None


def page(
    title: str,
    body: Markup,
    *,
    lead: str | Markup = "",
    links: Iterable[Link] = (),
    footer: str | Markup = "",
    data: Mapping[str, object] | None = None,
    scripts: Iterable[str] = (),
    generator: str = "r2med-pyserini",
) -> str:
    """A whole page, as text that ends with a line break. A `body` that is no Markup is escaped as any text.

    `lead` stands under the title, `links` above it and `footer` at the end. `data` maps ids to values that scripts read
    as JSON; `scripts` names files of `assets/` that the page needs besides `site.js`. Nothing else can run in the page,
    and it can load nothing: its Content-Security-Policy allows these scripts by their hashes. `generator` says in the
    page's head what wrote it.
    """
    early, *late = (asset(name) for name in ("theme.js", "site.js", *scripts))
    return str(
        render(
            "page.html.jinja",
            title=title,
            body=body,
            lead=lead,
            links=list(links),
            footer=footer,
            data={name: embedded(value) for name, value in (data or {}).items()},
            style=Markup(asset("site.css")),
            early=Markup(early),
            scripts=[Markup(script) for script in late],
            policy=_policy([early, *late]),
            generator=generator,
        )
    )


def render(template: str, **values: object) -> Markup:
    """A template of `templates/`, filled. Raises jinja2.UndefinedError for a value that it wants and does not get."""
    return Markup(_environment().get_template(template).render(**values))


def embedded(value: object) -> Markup:
    """A value as JSON that may stand in a `script` element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def figure(value: float | None) -> str:
    """A score as pages show it."""
    return NO_FIGURE if value is None else f"{value:.4f}"


@cache
def asset(name: str) -> str:
    """The text of a file of `assets/`, framed by line breaks."""
    return f"\n{(ASSETS / name).read_text(encoding='utf-8').strip()}\n"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["figure"] = figure
    found.filters["thousands"] = lambda number: f"{number:,}"
    return found


def _policy(scripts: Iterable[str]) -> str:
    """The Content-Security-Policy: inline style and pictures, scripts by their hashes, and nothing from elsewhere."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(dict.fromkeys(f"'sha256-{digest}'" for digest in digests))
    parts = ("default-src 'none'", f"script-src {allowed}", "style-src 'unsafe-inline'", "img-src data:")
    return "; ".join((*parts, "base-uri 'none'", "form-action 'none'"))
