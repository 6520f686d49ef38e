#!/bin/sh
# Builds hspz and runs its tests; ends in a line of counts. Non-zero when anything failed or nothing ran.
#
#   tests/run.sh [--long] [--sanitize] [arguments of `meson test`]
#
#   --long      also the tests of suite `long` (each takes minutes; results go to tests/bench/NOTES.md)
#   --sanitize  also build and test with address+undefined (build-asan) and thread (build-tsan)
#
# Debian packages of .ci/packages.txt that are missing are installed first; HSPZ_INSTALL=no leaves
# the machine as it is. HSPZ_SHARED and HSPZ_REQUIRE are explained in tests/README.md.
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

failed=0
logs=

# build_and_test FOLDER SETUP_ARGUMENTS -- TEST_ARGUMENTS
build_and_test() {
    folder=$1
    shift
    setup=
    while [ "$1" != -- ]; do
        setup="$setup $1"
        shift
    done
    shift
    # Unquoted on purpose: one word per argument.
    [ -e "$folder/build.ninja" ] || meson setup "$folder" $setup
    ninja -C "$folder"
    rm -f "$folder"/meson-logs/testlog*
    meson test -C "$folder" --no-rebuild --print-errorlogs "$@" || failed=1
    logs="$logs $folder/meson-logs"
}

if [ $long = yes ]; then
    build_and_test build -- --setup long "$@"
else
    build_and_test build -- "$@"
fi
if [ $sanitize = yes ]; then
    build_and_test build-asan -Dcuda=disabled -Dbench=disabled -Dbuildtype=debugoptimized \
        -Db_sanitize=address,undefined -Db_lundef=false -- --setup address "$@"
    build_and_test build-tsan -Dcuda=disabled -Dbench=disabled -Dbuildtype=debugoptimized \
        -Db_sanitize=thread -Db_lundef=false -- --setup threads "$@"
fi

python3 - $failed $logs <<'END'
import glob, json, sys

counts = {"passed": 0, "failed": 0, "skipped": 0}
kinds = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
for folder in sys.argv[2:]:
    for log in glob.glob(folder + "/testlog*.json"):
        for line in open(log, encoding="utf-8"):
            counts[kinds.get(json.loads(line)["result"], "failed")] += 1
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
sys.exit(1 if counts["failed"] or not counts["passed"] or sys.argv[1] != "0" else 0)
END
