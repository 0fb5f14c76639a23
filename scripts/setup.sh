#!/bin/sh
# Create a virtual environment with a suitable Python, and install what is asked for into it.
# Usage: setup.sh VENV PYTHON REQUIREMENT    (PYTHON may be empty: one is looked for)
set -eu
venv=$1 wanted=$2 requirement=$3

suitable() {
    "$1" -c 'import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

candidates() {
    for name in python3.14 python3.13 python3.12 python3; do
        command -v "$name" || true
    done
    for python in "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.*/bin/python3; do
        if [ -x "$python" ]; then echo "$python"; fi
    done
}

find_python() {
    if [ -n "$wanted" ]; then
        if suitable "$wanted"; then
            echo "$wanted"
            return
        fi
        echo "Error: PYTHON=$wanted is not a Python 3.12 or newer with the modules venv and ensurepip." >&2
        return 1
    fi
    candidates | while read -r python; do
        if suitable "$python"; then
            echo "$python"
            break
        fi
    done
}

if ! { [ -x "$venv/bin/python" ] && suitable "$venv/bin/python"; }; then
    python=$(find_python)
    if [ -z "$python" ]; then
        echo "Error: no Python 3.12 or newer with the modules venv and ensurepip was found; install one (Debian: python3-venv), or say make PYTHON=/path/to/python3.12" >&2
        exit 1
    fi
    echo "Creating $venv with $("$python" --version) ($python)" >&2
    if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
        echo "Error: $venv is there and is no virtual environment; move it away, or name another with make VENV=..." >&2
        exit 1
    fi
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        exit 1
    fi
fi
echo "Installing $requirement into $venv (the first time it fetches pyserini and torch: some minutes)" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$requirement"
