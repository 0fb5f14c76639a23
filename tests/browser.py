"""A real browser for tests of pages: Debian's Chromium, driven by Playwright."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-prefers-reduced-motion",
)  # fmt: skip
PHONE, DESKTOP = (375, 812), (1280, 900)


def executable() -> str:
    """Where the browser is; skips the test, and says why, where there is none."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"needs a browser: one of {', '.join(CHROMIUM)} on PATH (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """The browser, with empty data of its own; for a module, since an event loop runs as long as it is there."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    path = executable()
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield found
        found.close()


@contextmanager
def window(
    chromium: "Browser", size: tuple[int, int] = DESKTOP, dark: bool = False, scripts: bool = True
) -> Iterator["BrowserContext"]:
    """A window of a size in CSS pixels, of somebody who prefers light or dark colours, and may allow no scripts."""
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(10_000)
    try:
        yield context
    finally:
        context.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """The script of axe-core, which finds what keeps people from using a page; from the npm registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to get axe-core from its registry")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "pack", "axe-core@4", "--silent"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("axe-core cannot be had: npm's registry does not answer")
    if done.returncode != 0:
        pytest.skip(f"axe-core cannot be had: {done.stderr.strip()[:200]}")
    shutil.unpack_archive(folder / done.stdout.strip().splitlines()[-1], folder, "gztar", filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def violations(page, script: str) -> list[str]:
    """What axe-core holds against a page, a line each: impact, rule, place."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['impact']}: {one['id']}: {', '.join(' '.join(map(str, node['target'])) for node in one['nodes'][:5])}"
        for one in found
    ]


def shows(locator, text: str) -> None:
    """Wait until a part of a page shows a text. (Playwright's `wait_for_function` breaks the pages' policy.)"""
    from playwright.sync_api import expect

    expect(locator).to_have_text(text)
