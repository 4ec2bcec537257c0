"""``python -m tests.fuzz --cases 1000 --first 500``: as many cases as one likes, each in several spellings."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.families import CHOICES, FAMILIES, Case
from tests.fuzz.judge import failures


def main() -> int:
    """Print what is wrong; the exit code tells whether anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--spellings", type=int, default=5, help="graphs of a case")
    parser.add_argument("--family", default="", choices=sorted(FAMILIES | CHOICES), help="this one alone")
    parser.add_argument("--verdicts", action="store_true", help="analyse only, compile nothing")
    options = parser.parse_args()
    count = 0
    for seed in range(options.first, options.first + options.cases):
        for text in failures(Case(seed, options.family), options.spellings, not options.verdicts):
            count += 1
            print(text, flush=True)
    print(f"{options.cases * options.spellings} graphs, {count} failures")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
