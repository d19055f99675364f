"""Writes the contract that the two ends agree on from the back end's own routes."""

import json
import pathlib
import sys

from box_office import routes


def main():
    target = pathlib.Path(sys.argv[1])
    document = routes.contract()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for path, operations in document["paths"].items():
        print(f"{', '.join(operations).upper():<7} {path}")


if __name__ == "__main__":
    main()
