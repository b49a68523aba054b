"""Writes `docs/test-coverage.md` from the promises in this folder and the tests that there are.

Usage: python -m tests.promises [--check]
"""

from __future__ import annotations

import sys

from tests.promises import data, page, problems, tree

PAGE = problems.DOCS / "test-coverage.md"


def main(arguments: list[str]) -> int:
    """Exit code."""
    features, pages, left_out, tests = data.features(), data.pages(), data.left_out(), tree.found()
    found = [
        *problems.of_promises(features, tests),
        *problems.of_promises(pages, tests),
        *problems.of_pages(pages),
        *problems.of_thorough(left_out, tests),
    ]
    if found:
        sys.stderr.write("".join(f"tests/promises: {each}\n" for each in found))
        return 1
    text = page.rendered(features, pages, left_out, tests)
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{PAGE} is not what promises and tests say: run `python -m tests.promises`\n")
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
