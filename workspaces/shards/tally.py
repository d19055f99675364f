"""Adds up what the groups' reports say."""

import pathlib
import sys
import xml.etree.ElementTree as tree


def main():
    total = 0
    broken = 0
    reports = sorted(pathlib.Path(sys.argv[1]).glob("*.xml"))
    for report in reports:
        for suite in tree.parse(report).iter("testsuite"):
            tests = int(suite.get("tests"))
            bad = int(suite.get("failures")) + int(suite.get("errors"))
            print(f"{report.stem:<12} {tests:>4} tests  {bad} bad  {float(suite.get('time')):.1f} s")
            total += tests
            broken += bad
    print(f"{total} tests in {len(reports)} groups, {broken} bad")
    return 1 if broken or not total else 0


if __name__ == "__main__":
    sys.exit(main())
