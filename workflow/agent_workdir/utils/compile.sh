#!/usr/bin/env bash
# Compile kernels/ and the bindings into build/libcuda_extension.so. Fixed. Arguments: see utils/compile.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 -m utils.compile "$@"
