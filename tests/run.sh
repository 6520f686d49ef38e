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

runs=

# Most tests wait most of the time.
processes=$(($(getconf _NPROCESSORS_ONLN) + 2))

# build_and_test FOLDER TEST_SETUP TARGET SETUP_ARGUMENTS -- TEST_ARGUMENTS
# TARGET is what the setup's tests need; of tests that the arguments name, all is built.
build_and_test() {
    folder=$1
    tested=$2
    target=$3
    shift 3
    setup=
    while [ "$1" != -- ]; do
        setup="$setup $1"
        shift
    done
    shift
    # Unquoted on purpose: one word per argument.
    [ -e "$folder/build.ninja" ] || meson setup "$folder" $setup
    [ $# -eq 0 ] || target=all
    ninja -C "$folder" "$target"
    rm -f "$folder"/meson-logs/testlog*
    status=0
    meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" \
        --setup "$tested" "$@" || status=$?
    runs="$runs $folder $tested $status"
}

if [ $long = yes ]; then
    tested=long
elif [ $sanitize = yes ]; then
    tested=rest # of what the address sanitizer's build runs
else
    tested=normal
fi
build_and_test build "$tested" all ${HSPZ_GPU_ARCH:+-Dgpu-arch="$HSPZ_GPU_ARCH"} -- "$@"
if [ $sanitize = yes ]; then
    # A report needs the lines, and no more of what a debugger knows.
    sanitizer="-Dcuda=disabled -Dbench=disabled -Ddebug=true -Doptimization=1 -Dc_args=-g1 -Db_lundef=false"
    # Unquoted on purpose: one word per argument.
    build_and_test build-asan address all $sanitizer -Db_sanitize=address,undefined -- "$@"
    build_and_test build-tsan threads threads-tests $sanitizer -Db_sanitize=thread -- "$@"
fi

# Unquoted on purpose: three words per run.
exec python3 tests/verdict.py $runs
