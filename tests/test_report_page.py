import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from r2med_pyserini.report.page import ASSETS, TEMPLATES, Link, asset, embedded, page, render

HOSTILE = "</script><script>alert('\"&<b>')</script>"


class Parsed(HTMLParser):
    """A page's elements, with the text of each kind that a browser does not read as markup."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside[-1]][-1] += data
        if not {"script", "style"} & set(self.inside):
            self.shown += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def scripts(self) -> list[str]:
        """The scripts that would run."""
        kinds = [attributes.get("type") for attributes in self.attributes("script")]
        return [text for text, kind in zip(self.texts.get("script", []), kinds, strict=True) if kind is None]

    def data(self) -> dict[str, object]:
        """The values that scripts read, by id."""
        pairs = zip(self.attributes("script"), self.texts.get("script", []), strict=True)
        return {attributes["id"]: json.loads(text) for attributes, text in pairs if "id" in attributes}

    def policy(self) -> str:
        (found,) = (a["content"] for a in self.attributes("meta") if a.get("http-equiv") == "Content-Security-Policy")
        return found


def digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def loads(parsed: Parsed) -> list[str]:
    """What a page would ask for when it is opened."""
    asked = [
        attributes[key] for _, attributes in parsed.tags for key in ("src", "srcset", "poster") if key in attributes
    ]
    asked += [attributes["href"] for attributes in parsed.attributes("link")]
    asked += [text for style in parsed.texts["style"] for text in re.findall(r"url\([^)]*\)|@import[^;]*", style)]
    return [text for text in asked if not text.startswith("data:")]


PLAIN = page("A title", Markup("<p>body</p>"))


def test_a_page_is_whole_and_ends_with_a_line_break():
    assert PLAIN.startswith('<!doctype html>\n<html lang="en">') and PLAIN.endswith("</html>\n")
    parsed = Parsed(PLAIN)
    assert parsed.texts["title"] == parsed.texts["h1"] == ["A title"]
    assert [tag for tag, _ in parsed.tags if tag in ("header", "nav", "main", "footer")] == [
        "header",
        "nav",
        "main",
        "footer",
    ]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in parsed.attributes("meta")


def test_the_skip_link_leads_to_the_content():
    parsed = Parsed(PLAIN)
    first = parsed.attributes("a")[0]
    assert (first["class"], first["href"]) == ("skip", "#main")
    assert parsed.attributes("main")[0]["id"] == "main"


@pytest.mark.parametrize("where", ["title", "body", "lead", "footer", "link", "href", "data", "id", "generator"])
def test_no_text_becomes_markup(where):
    given = {"title": "t", "body": Markup("<p>b</p>"), "data": {"values": 1}}
    given |= {
        "link": {"links": [Link(HOSTILE)]},
        "href": {"links": [Link("x", HOSTILE)]},
        "data": {"data": {"values": [HOSTILE, {HOSTILE: HOSTILE}]}},
        "id": {"data": {HOSTILE: 1}},
    }.get(where, {where: HOSTILE})
    parsed = Parsed(page(**given))
    plain = Parsed(page("t", Markup("<p>b</p>"), data={"values": 1}))
    assert parsed.scripts() == plain.scripts() and len(parsed.scripts()) == 2
    if where in ("title", "body", "lead", "footer", "link"):
        assert HOSTILE in parsed.shown
    if where == "data":
        assert parsed.data()["values"] == [HOSTILE, {HOSTILE: HOSTILE}]


@pytest.mark.parametrize("value", ["\u2028\u2029", "<!--<script>", "]]>", {"ü": [1.5, None, True]}, HOSTILE])
def test_embedded_values_are_read_back(value):
    text = embedded(value)
    assert json.loads(text) == value
    assert not set("<>&") & set(text)


def test_only_our_scripts_may_run_and_nothing_is_loaded():
    for text in (PLAIN, page("t", Markup(), scripts=["matrix.js"])):
        parsed = Parsed(text)
        policy = parsed.policy()
        assert re.findall(r"'sha256-([^']+)'", policy) == [digest(script) for script in parsed.scripts()]
        assert "default-src 'none'" in policy and "'unsafe-eval'" not in policy
        assert re.search(r"script-src ('sha256-[^']+' ?)+;", policy)
        assert loads(parsed) == []


def test_what_would_be_loaded_is_seen():
    body = Markup('<img src="x.png"><style>@import "a"; b { background: url(c) }</style><link href="http://d">')
    assert loads(Parsed(page("t", body))) == ["x.png", "http://d", '@import "a"', "url(c)"]


def test_no_markup_hides_in_a_script_or_a_style():
    names = [path.name for path in ASSETS.iterdir()]
    assert {"site.css", "site.js", "theme.js", "matrix.js"} <= set(names)
    assert not [name for name in names if re.search(r"</(script|style)|<!--", asset(name))]


def test_a_template_that_lacks_a_value_is_no_page():
    with pytest.raises(UndefinedError):
        render("page.html.jinja", title="t")


def test_every_template_escapes():
    assert not [path for path in TEMPLATES.iterdir() if re.search(r"\|\s*safe\b|autoescape", path.read_text())]


def test_the_same_page_twice():
    assert page("A title", Markup("<p>body</p>")) == PLAIN
