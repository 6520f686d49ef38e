#!/bin/bash
# Run by conda-build. Not run yet.
set -euo pipefail
meson setup build --prefix="$PREFIX" --libdir=lib --buildtype=release -Dcuda=disabled -Dtests=disabled \
    -Dbench=disabled -Dsystemd=disabled
ninja -C build -j "${CPU_COUNT:-1}"
meson install -C build --no-rebuild
"$PYTHON" -m pip install --no-deps --no-build-isolation -vv ./client/python
