#!/bin/sh
# Find a Python that can make environments (3.11 or newer; $PYTHON if set) and run setup_environment.py with it.
set -eu

here=$(dirname "$0")
for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1; then
        exec "$candidate" "$here/setup_environment.py" "$@"
    fi
done

cat >&2 <<MESSAGE
No usable Python: Dragoman needs Python 3.11 or newer with its venv module.
  tried:  ${PYTHON:-python3.13 python3.12 python3.11 python3}
  to do:  Debian, Ubuntu   sudo apt install python3 python3-venv
          Fedora           sudo dnf install python3
          macOS            brew install python@3.13
          elsewhere        point to one: make PYTHON=/path/to/python3
MESSAGE
exit 1
