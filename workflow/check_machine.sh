#!/bin/sh
# Say at once what this machine lacks, and which package brings it.
# Usage: check_machine.sh [python]
python=${1:-python3}
missing=""

lacks() {
    missing="$missing
  - $1"
}

if ! command -v "$python" >/dev/null; then
    lacks "$python: Debian packages python3 and python3-venv (or set PYTHON=/path/to/python3.11)"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    lacks "Python 3.11 or newer; $python is $("$python" -V 2>&1) (set PYTHON=/path/to/python3.11)"
else
    "$python" -c 'import venv, ensurepip' 2>/dev/null || lacks "the modules venv and ensurepip: Debian package python3-venv"
    IFS='
'
    for line in $("$python" -I "$(dirname "$0")/cuda_agent/toolchain.py"); do lacks "$line"; done
fi
command -v git >/dev/null || lacks "git: Debian package git"
[ "$(uname -s)" = Linux ] || lacks "Linux: the sandbox needs its namespaces and Landlock"

if [ -n "$missing" ]; then
    echo "This machine lacks:$missing" >&2
    exit 1
fi
