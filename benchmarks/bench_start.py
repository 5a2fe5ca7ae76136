"""How long it takes until the command line answers, the package is imported, and a first sentence is translated.

`bench_start.py [MODEL]`: without a model directory nothing is translated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from rows import print_row, seconds

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import dragoman": [sys.executable, "-c", "import dragoman"],
    "import dragoman.nn": [sys.executable, "-c", "import dragoman.nn"],
    "dragoman --help": [str(Path(sys.executable).with_name("dragoman")), "--help"],
}

TEXT = b"A man rides a horse.\n"
FIRST = """
import sys
from dragoman import Translator
translator = Translator.from_pretrained(sys.argv[1], engine=sys.argv[2])
print(translator.translate(["A man is riding a horse."])[0].text)
"""
TRANSLATING = {
    "import Translator": [sys.executable, "-c", "from dragoman import Translator"],
    "first translation, native engine": [sys.executable, "-c", FIRST, "MODEL", "native"],
    "first translation, with PyTorch": [sys.executable, "-c", FIRST, "MODEL", "module"],
    "dragoman translate": [str(Path(sys.executable).with_name("dragoman")), "translate", "MODEL"],
}


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    # Users have compiled bytecode: what is forbidden to write it would measure the compiler of Python.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for name, words in {**COMMANDS, **(TRANSLATING if model else {})}.items():
        command = [model if model and word == "MODEL" else word for word in words]
        run = partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL, input=TEXT, env=environment)
        timing = seconds(run)
        print_row("start", {"what": name, **timing})


if __name__ == "__main__":
    main()
