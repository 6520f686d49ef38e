#!/bin/sh
# Makes hspz-VERSION-linux-MACHINE[-cuda].tar.gz for nodes where nothing can be installed: bin/hspzd and
# bin/hspz-client, linked with static libraries where there are some; what is left is in lib/, and found
# from wherever the archive is unpacked. Of the node it needs the C library that its REQUIRES names, and
# for a card the driver.
#
#   daemon/packages/tarball.sh [--cuda ARCH[,ARCH...]] [--build FOLDER] [--output FOLDER]
#
# Build it on the oldest system it is for: a C library takes what was linked with an older one.
set -eu
cd "$(dirname "$0")/../.."
arch=
build=build-tarball
output=.
while [ $# -gt 0 ]; do
    case $1 in
    --cuda) arch=$2 build=build-tarball-cuda ;;
    --build) build=$2 ;;
    --output) output=$2 ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
    shift 2
done

if [ ! -e "$build/build.ninja" ]; then
    # shellcheck disable=SC2016
    beside='--disable-new-dtags,-rpath=$ORIGIN/../lib'
    set -- -Dprefer_static=true -Dtests=disabled -Dbench=disabled -Dsystemd=disabled -Dplot=disabled
    # Debian's static libmicrohttpd wants static libraries that Debian does not have: the shared one.
    pc=$PWD/$build-pkgconfig
    if pkg-config --exists libmicrohttpd; then
        mkdir -p "$pc"
        cat > "$pc/libmicrohttpd.pc" <<END
Name: libmicrohttpd
Description: the shared library alone
Version: $(pkg-config --modversion libmicrohttpd)
Libs: $(pkg-config --variable=libdir libmicrohttpd)/libmicrohttpd.so
Cflags: $(pkg-config --cflags libmicrohttpd)
END
    fi
    if [ -n "$arch" ]; then
        set -- "$@" -Dcuda=enabled -Dgpu-arch="$arch" -Dcuda_link_args="-Xlinker=$beside"
    else
        set -- "$@" -Dcuda=disabled
    fi
    PKG_CONFIG_PATH=$pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} meson setup "$build" "$@" -Dc_link_args="-Wl,$beside"
fi
ninja -C "$build" daemon/hspzd client/hspz-client

version=$("$build/client/hspz-client" --version | awk '{ print $2 }')
name=hspz-$version-linux-$(uname -m)${arch:+-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$work/$name
mkdir -p "$top/bin" "$top/lib" "$top/python/hspz"
cp "$build/daemon/hspzd" "$build/client/hspz-client" "$top/bin/"
strip "$top/bin/"*
# Everything but the C library's own and the driver's.
for program in "$top/bin/"*; do
    ldd "$program" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | { grep -Ev '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*|libcuda)\.so' || true; } |
    while read -r library; do
        cp -L "$library" "$top/lib/"
    done
cp client/python/hspz/*.py client/python/hspz/py.typed "$top/python/hspz/"
cp -r client/slurm "$top/slurm"
cp LICENSE README.md SECURITY.md protocol/PROTOCOL.md "$top/"
glibc=$(find "$top/bin" "$top/lib" -type f -exec objdump -T {} + 2>/dev/null |
    sed -n 's/.*GLIBC_\([0-9][0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
{
    echo "hspz $version, $(uname -m) Linux, glibc $glibc or later"
    [ -z "$arch" ] || echo "cards of compute capability $arch and their driver; otherwise --engine cpu"
    echo "bin/ and lib/ stay beside each other; python/ may be named in PYTHONPATH (numpy, msgpack)"
    echo "slurm/ is for clusters, and wants bin/ and itself in the PATH"
} > "$top/REQUIRES"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$name" |
    gzip -9n > "$output/$name.tar.gz"
cat "$top/REQUIRES"
ls -l "$output/$name.tar.gz"
