#!/bin/sh
# hspz from nothing: installs what it needs (Debian), builds, indexes a real genome of E. coli, starts a
# daemon of its own, finds the anchors of another strain, draws a dot plot of the two, and cleans up. Takes two
# minutes and, where two cores are busy with other work too, up to seven.
#
#   sh client/demo.sh
#
# Only build/ stays (and packages), with the picture, build/ecoli.png; where nvcc is, its kernels are for this machine's
# cards (`meson configure build -Dgpu-arch=[]`: for all). HSPZ_INSTALL=no installs nothing.
# The results need 700 MB under $TMPDIR or /tmp for the time of the run.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
exec 2>&1
bold= plain=
if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

genomes=build-genomes # where examples go that the packages did not bring
reference=ragout/examples/E.Coli/references/MG1655-K12.fasta.gz
query=bowtie/examples/genomes/NC_008253.fna.gz
work=
daemon=

say() {
    printf '\n%s%s%s\n' "$bold" "$*" "$plain"
}

# Shows a command as one would type it, and runs it.
show() {
    printf '$ %s\n' "$*" | sed "s|$work|\$W|g; s|$here/||g"
    "$@"
}

die() {
    printf 'demo.sh: %s\n' "$*"
    exit 1
}

stop_daemon() {
    if [ -n "$daemon" ]; then
        kill -TERM "$daemon" 2>/dev/null || true
        status=0
        wait "$daemon" || status=$?
        daemon=
        return "$status"
    fi
}

clean_up() {
    status=$?
    trap - EXIT
    if [ "$status" -ne 0 ] && [ -n "$work" ] && [ -s "$work/hspzd.log" ]; then
        echo "The end of the daemon's log:"
        tail -n 5 "$work/hspzd.log"
    fi
    stop_daemon || true
    if [ -n "$work" ]; then
        rm -rf "$work"
    fi
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for: $*"
    fi
}

is_installed() {
    dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# Packages to build (first section of .ci/packages.txt) and the two with genomes.
missing_packages() {
    { sed '/^# tests/,$d; s/#.*//' .ci/packages.txt && printf '%s\n' ragout-examples bowtie-examples; } |
        while read -r package; do
            if [ -n "$package" ] && ! is_installed "$package"; then
                printf '%s ' "$package"
            fi
        done
}

install_packages() {
    missing=$(missing_packages)
    if [ -z "$missing" ]; then
        echo "all there"
        return
    fi
    echo "installing: $missing"
    as_root apt-get -qq update
    # Unquoted on purpose: one word per package.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing \
        >/dev/null
}

# Sets `genome` to where an example is. Some images leave /usr/share/doc out when packages are
# installed: then it is taken from the package itself.
find_genome() {
    genome=/usr/share/doc/$1
    package=${1%%/*}-examples
    if [ ! -e "$genome" ]; then
        genome=$here/$genomes/usr/share/doc/$1
    fi
    if [ ! -e "$genome" ]; then
        echo "unpacking $package"
        mkdir -p "$genomes"
        (cd "$genomes" && apt-get -qq download "$package" && dpkg-deb -x "$package"_*.deb .)
    fi
}

# Of the cards that are here; without one, of one kind: for all kinds kernels take minutes more.
gpu_arch() {
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        awk '/^[0-9]+\.[0-9]$/ && $1 >= 7.5 { sub(/\./, ""); print }' | sort -u | paste -sd, -)
    echo "${found:-90}"
}

say "1. Packages"
if [ "${HSPZ_INSTALL:-yes}" = yes ] && command -v apt-get >/dev/null; then
    install_packages
else
    echo "left as they are"
fi
find_genome "$reference"
reference=$genome
find_genome "$query"
query=$genome

say "2. Build (a minute of two cores, two where nvcc is, in silence)"
log=$(mktemp)
{ { [ -e build/build.ninja ] || meson setup build -Dgpu-arch="$(gpu_arch)"; } &&
    ninja -C build daemon/hspzd client/hspz-client; } >"$log" || { cat "$log"; die "the build failed"; }
tail -n 1 "$log"
rm -f "$log"
hspzd=$here/build/daemon/hspzd
client=$here/build/client/hspz-client
work=$(mktemp -d "${TMPDIR:-/tmp}/hspz-demo.XXXXXX")
export HSPZ_SERVER="unix:$work/hspz.sock"

say "3. Index of E. coli K-12 MG1655 (no server needed)"
show "$client" index build "$reference" -o "$work/ecoli.hspz"

say "4. A daemon that keeps it in memory"
printf '$ hspzd --socket $W/hspz.sock --index ecoli=$W/ecoli.hspz &\n'
"$hspzd" --socket "$work/hspz.sock" --index "ecoli=$work/ecoli.hspz" >"$work/hspzd.log" 2>&1 &
daemon=$!
show "$client" --wait 60 index describe ecoli

say "5. Anchors of E. coli 536 (NC_008253), both strands, exact words"
show "$client" -v discover ecoli "$query" --no-transitions -o "$work/anchors.tsv"
show head -n 5 "$work/anchors.tsv"
count=$(($(wc -l <"$work/anchors.tsv") - 1))
[ "$count" -gt 0 ] || die "no anchors"
echo "($count anchors in the file)"

rm "$work/anchors.tsv"

say "6. The same with one transition allowed per word, as packed 64-bit anchors"
show "$client" -v discover ecoli "$query" --format packed -o "$work/anchors.bin"
echo "($(($(wc -c <"$work/anchors.bin") / 8)) anchors in the file)"

say "7. A dot plot of their HSPs"
if ldd "$client" | grep -q libcairo; then
    show "$client" plot ecoli "$query" --no-transitions -o "$here/build/ecoli.png"
    echo "(look at build/ecoli.png: plus strand blue, minus strand orange)"
else
    echo "none: without libcairo2-dev, hspz-client was built without it"
fi

say "8. The daemon stops"
stop_daemon || die "the daemon ended with status $?"
tail -n 1 "$work/hspzd.log"
printf '\nDone. Try it on your own genomes: README.md has the commands.\n'
