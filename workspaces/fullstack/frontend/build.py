"""Bundles the pages: fills their templates, makes them small, gives the assets names by content,
and holds every call of the API against the contract."""

import hashlib
import json
import pathlib
import re
import shutil
import string
import sys

SOURCE = pathlib.Path(__file__).parent
CALL = re.compile(r"""["'](GET|POST|PUT|DELETE) (/api/[^"']*)["']""")
KEPT = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)


class BuildError(Exception):
    """The sources cannot be built."""


def render(page):
    """A page between the partials. Its first line says its title."""
    first, _, body = page.read_text(encoding="utf-8").partition("\n")
    if not first.startswith("title: "):
        raise BuildError(f"{page.name}: the first line has to be `title: …`")
    parts = [(SOURCE / "partials" / name).read_text(encoding="utf-8") for name in ("head.html", "foot.html")]
    head = string.Template(parts[0]).substitute(title=first[len("title: "):].strip())
    return head + body.strip("\n") + "\n" + parts[1]


def smaller_html(text):
    """Without comments, and white space between tags and lines as one; `pre` stays as it is."""
    pieces = KEPT.split(text)
    for index in range(0, len(pieces), 2):
        piece = re.sub(r"<!--.*?-->", "", pieces[index], flags=re.DOTALL)
        pieces[index] = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", piece))
    return "".join(pieces).strip() + "\n"


def smaller_css(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*([{}:;,])\s*", r"\1", re.sub(r"\s+", " ", text))
    return text.replace(";}", "}").strip() + "\n"


def smaller_js(text):
    """Without whole-line comments, blank lines and indentation; a line stays a line."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


SMALLER = {".css": smaller_css, ".js": smaller_js}


def bundle_assets(target):
    """Writes the assets under names by content, and says which became which."""
    names = {}
    for asset in sorted((SOURCE / "assets").iterdir()):
        text = SMALLER[asset.suffix](asset.read_text(encoding="utf-8"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        name = f"{asset.stem}.{digest}{asset.suffix}"
        (target / "assets" / name).write_text(text, encoding="utf-8")
        names[f"/assets/{asset.name}"] = f"/assets/{name}"
    return names


def undocumented(contract, texts):
    """Calls of the API that the contract does not have."""
    for name, text in texts:
        for method, path in CALL.findall(text):
            if method.lower() not in contract["paths"].get(path, {}):
                yield f"{name}: `{method} {path}` is not in the contract"


def main():
    target, contract_path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    contract = json.loads(contract_path.read_text(encoding="utf-8"))
    sources = [*sorted((SOURCE / "pages").glob("*.html")), *sorted((SOURCE / "assets").glob("*.js"))]
    calls = sum(len(CALL.findall(file.read_text(encoding="utf-8"))) for file in sources)
    problems = list(undocumented(contract, ((file.name, file.read_text(encoding="utf-8")) for file in sources)))
    if problems:
        raise BuildError("\n".join(problems))
    shutil.rmtree(target, ignore_errors=True)
    (target / "assets").mkdir(parents=True)
    names = bundle_assets(target)
    for page in sorted((SOURCE / "pages").glob("*.html")):
        full = render(page)
        small = smaller_html(full)
        for source, built in names.items():
            small = small.replace(f'"{source}"', f'"{built}"')
        (target / page.name).write_text(small, encoding="utf-8")
        print(f"{page.name:<14} {len(full):>5} → {len(small):>5} bytes")
    print(f"{len(names)} assets, {calls} calls of the API, all in the contract")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
