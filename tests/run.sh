#!/bin/sh
# Builds hspz and runs its tests; ends in a line of counts. Non-zero when anything failed or nothing ran.
#
#   tests/run.sh [--long] [--sanitize] [arguments of `meson test`]
#
#   --long      also the tests of suite `long` (each takes minutes; results go to tests/bench/NOTES.md)
#   --sanitize  also build and test with address+undefined (build-asan) and thread (build-tsan)
#
# Debian packages of .ci/packages.txt that are missing are installed first; HSPZ_INSTALL=no leaves
# the machine as it is. HSPZ_SHARED, HSPZ_REQUIRE and HSPZ_GPU_ARCH are explained in tests/README.md.
set -eu
cd "$(dirname "$0")/.."

long=no
sanitize=no
while [ $# -gt 0 ]; do
    case $1 in
    --long) long=yes ;;
    --sanitize) sanitize=yes ;;
    -h | --help)
        sed -n '2,10s/^# \{0,1\}//p' tests/run.sh
        exit 0
        ;;
    *) break ;;
    esac
    shift
done

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

missing_packages() {
    sed 's/#.*//' .ci/packages.txt | while read -r package; do
        if [ -n "$package" ] && ! dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed; then
            printf '%s\n' "$package"
        fi
    done
}

if [ "${HSPZ_INSTALL:-yes}" = yes ] && command -v apt-get >/dev/null; then
    missing=$(missing_packages)
    if [ -n "$missing" ]; then
        echo "installing:" $missing
        as_root apt-get -q update
        # Unquoted on purpose: one word per package.
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
    fi
fi

# Example genomes live under /usr/share/doc, which some images leave out when packages are installed.
genomes=build-genomes
for file in ragout/examples/E.Coli/references/MG1655-K12.fasta.gz \
    bowtie/examples/genomes/NC_008253.fna.gz; do
    package=${file%%/*}-examples
    if [ ! -e "/usr/share/doc/$file" ] && [ ! -e "$genomes/usr/share/doc/$file" ] &&
        command -v apt-get >/dev/null; then
        mkdir -p "$genomes"
        (cd "$genomes" && apt-get -q download "$package" && dpkg-deb -x "$package"_*.deb .)
    fi
done

# Most tests wait most of the time.
processes=$(($(getconf _NPROCESSORS_ONLN) + 2))

# build FOLDER TARGET SETUP_ARGUMENTS
build() {
    folder=$1
    target=$2
    shift 2
    [ -e "$folder/build.ninja" ] || meson setup "$folder" "$@"
    ninja -C "$folder" "$target"
    rm -f "$folder"/meson-logs/testlog*
}

# run_tests FOLDER TEST_SETUP TEST_ARGUMENTS, in a shell of its own.
run_tests() {
    folder=$1
    tested=$2
    shift 2
    exec meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" \
        --setup "$tested" "$@"
}

if [ $long = yes ]; then
    plain=long
elif [ $sanitize = yes ]; then
    plain=rest # of what the address sanitizer's build runs
else
    plain=normal
fi
build build all ${HSPZ_GPU_ARCH:+-Dgpu-arch="$HSPZ_GPU_ARCH"}
if [ $sanitize = yes ]; then
    # A report needs the lines, and no more of what a debugger knows.
    sanitizer="-Dcuda=disabled -Dbench=disabled -Ddebug=true -Doptimization=1 -Dc_args=-g1 -Db_lundef=false"
    # What the setup's tests need; of tests that the arguments name, all is built.
    threads=threads-tests
    [ $# -eq 0 ] || threads=all
    # Unquoted on purpose: one word per argument.
    build build-asan all $sanitizer -Db_sanitize=address,undefined
    build build-tsan "$threads" $sanitizer -Db_sanitize=thread
fi

# By itself, since some of its tests bound time.
status=0
(run_tests build "$plain" "$@") || status=$?
runs="build $plain $status"
if [ $sanitize = yes ]; then
    # Side by side: where one waits the other works. What the second says is shown once both are done.
    run_tests build-tsan threads "$@" >build-tsan/test-output 2>&1 </dev/null &
    other=$!
    trap 'kill $other' EXIT
    trap 'exit 130' INT TERM
    status=0
    (run_tests build-asan address "$@") || status=$?
    runs="$runs build-asan address $status"
    status=0
    wait $other || status=$?
    trap - EXIT INT TERM
    cat build-tsan/test-output
    runs="$runs build-tsan threads $status"
fi

# Unquoted on purpose: three words per run.
exec python3 tests/verdict.py $runs
