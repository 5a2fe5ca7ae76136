"""`python -m dragoman` and `dragoman`: the command line, which Ctrl-C ends while it is still imported too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from dragoman.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("dragoman: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
