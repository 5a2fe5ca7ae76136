"""How long it takes until the command line answers and until the package is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rows import print_row, seconds

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import dragoman": [sys.executable, "-c", "import dragoman"],
    "import dragoman.nn": [sys.executable, "-c", "import dragoman.nn"],
    "dragoman --help": [str(Path(sys.executable).with_name("dragoman")), "--help"],
}


def main() -> None:
    for name, command in COMMANDS.items():
        timing = seconds(lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
        print_row("start", {"what": name, **timing})


if __name__ == "__main__":
    main()
