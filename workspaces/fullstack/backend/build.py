"""Compiles every module of the back end and packs it into one file that python3 runs."""

import io
import pathlib
import sys
import zipfile

SOURCE = pathlib.Path(__file__).parent / "box_office"
ENTRY = b"import sys\nfrom box_office.server import main\nsys.exit(main())\n"
# A fixed date, so that the same sources give the same bytes.
DATE = (2026, 1, 1, 0, 0, 0)


def main():
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    files = {"__main__.py": ENTRY}
    for file in sorted(SOURCE.glob("*.py")):
        text = file.read_bytes()
        compile(text, str(file), "exec", dont_inherit=True)
        files[f"{SOURCE.name}/{file.name}"] = text
        print(f"compiled {SOURCE.name}/{file.name}")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), text)
    archive_path = target / "box_office.zip"
    archive_path.write_bytes(packed.getvalue())
    print(f"packed {archive_path}: {len(packed.getvalue())} bytes")


if __name__ == "__main__":
    main()
