"""Holds the groups against the suite: every file of tests is in one group, and in one only."""

import collections
import pathlib
import sys


def main():
    suite = {str(file) for file in pathlib.Path("build/suite/tests").glob("test_*.py")}
    listed = collections.Counter()
    for group in sorted(pathlib.Path("groups").glob("*.txt")):
        files = group.read_text(encoding="utf-8").split()
        listed.update(files)
        print(f"{group.stem:<12} {len(files):>2} files")
    problems = [f"{file} is in no group" for file in sorted(suite - set(listed))]
    problems += [f"{file} is not in the suite" for file in sorted(set(listed) - suite)]
    problems += [f"{file} is in {count} groups" for file, count in sorted(listed.items()) if count > 1]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems or not suite else 0


if __name__ == "__main__":
    sys.exit(main())
