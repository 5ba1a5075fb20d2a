"""Take pictures of pages of the site, and look for what is too wide: after `make docs`.

python scripts/screenshots.py [FOLDER]

Each picture has a page four times: 1280 and 420 pixels wide, light and dark. A page that scrolls sideways, or
has something that is cut off, is reported, and the exit code is then 1; tables and blocks of code may scroll.
Chromium shows the pages from a server of this process. Without Chromium a line says so, and that is all.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[1] / "build" / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGES = (
    "index",
    "tutorial",
    "losses",
    "comparison",
    "migration",
    "gallery",
    "performance",
    "reference/generated/bmrm.estimators.BMRMClassifier",
)
HEIGHT = 1600
SECONDS = 60
"""How long a browser may take for a page."""

FRAMES = """<!doctype html><body style="margin:0;display:flex;gap:8px;background:#888"><script>
const shapes = [[1280, "light"], [1280, "dark"], [420, "light"], [420, "dark"]];
const mayScroll = "pre, .pst-scrollable-table-container, .highlight, math, .bd-sidebar-primary, .ellipsis";
function tooWide(frame) {
  const page = frame.contentDocument, found = [];
  const wide = (each) => each.scrollWidth > each.clientWidth + 1;
  if (wide(page.scrollingElement)) found.push("the page scrolls sideways");
  for (const each of page.querySelectorAll("body *"))
    if (each.clientWidth > 1 && wide(each) && !each.closest(mayScroll)
        && frame.contentWindow.getComputedStyle(each).overflowX != "visible")
      found.push(`${each.tagName.toLowerCase()}.${each.className}: ${each.textContent.trim().slice(0, 50)}`);
  return found;
}
const frames = shapes.map(([width, theme]) => {
  const frame = document.createElement("iframe");
  frame.style = `border:0;flex:none;width:${width}px;height:HEIGHTpx`;
  frame.src = "/PAGE.html";
  return [frame, width, theme];
});
Promise.all(frames.map(([frame, width, theme]) => new Promise((done) => {
  frame.onload = () => {
    frame.contentDocument.documentElement.dataset.theme = theme;
    setTimeout(() => done({width, theme, found: tooWide(frame)}), 300);
  };
  document.body.append(frame);
}))).then((all) => fetch("/report?" + encodeURIComponent(JSON.stringify(all))));
</script>"""


class Handler(SimpleHTTPRequestHandler):
    """Serves the site, pages with four frames, and takes what these report."""

    reports: list[str]

    def do_GET(self) -> None:
        """Answer a request."""
        address = urlsplit(self.path)
        if address.path == "/report":
            self.reports.append(unquote(address.query))
            self.send_response(204)
            self.end_headers()
        elif address.path == "/frames":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(
                FRAMES.replace("PAGE", unquote(address.query)).replace("HEIGHT", str(HEIGHT)).encode()
            )
        else:
            super().do_GET()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


def take(browser: str, address: str, picture: Path) -> None:
    """Write the picture of an address."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={2 * 1280 + 2 * 420 + 3 * 8},{HEIGHT}", "--virtual-time-budget=5000"]
    subprocess.run(
        [*command, f"--screenshot={picture}", address], check=True, capture_output=True, timeout=SECONDS
    )


def main() -> int:
    """Take all pictures; return the exit code."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"screenshots: skipped: found none of {', '.join(BROWSERS)}")
        return 0
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/screenshots").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    Handler.reports = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    faults = 0
    for page in PAGES:
        Handler.reports.clear()
        picture = folder / f"{page.rpartition('/')[2]}.png"
        take(browser, f"http://127.0.0.1:{server.server_port}/frames?{page}", picture)
        found = json.loads(Handler.reports[0]) if Handler.reports else [{"found": ["no report"]}]
        faults += sum(len(shape["found"]) for shape in found)
        print(f"{page}: {picture}")
        for shape in found:
            for fault in shape["found"]:
                print(f"  {shape.get('width')} {shape.get('theme')}: {fault}")
    server.shutdown()
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
