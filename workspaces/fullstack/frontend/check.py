"""Checks the built pages: tags that open also close, and every link leads to a file that is there."""

import html.parser
import pathlib
import sys

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Page(html.parser.HTMLParser):
    """What a page opens, closes and points at."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.problems = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")


def problems(site):
    for file in sorted(site.glob("*.html")):
        page = Page()
        page.feed(file.read_text(encoding="utf-8"))
        for problem in page.problems + [f"<{tag}> stays open" for tag in page.open]:
            yield f"{file.name}: {problem}"
        for link in page.links:
            target = site / ("index.html" if link == "/" else link.lstrip("/"))
            if not target.is_file():
                yield f"{file.name}: {link} leads nowhere"


def main():
    site = pathlib.Path(sys.argv[1])
    pages = sorted(file.name for file in site.glob("*.html"))
    found = list(problems(site))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(f"{len(pages)} pages are sound: {', '.join(pages)}")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
