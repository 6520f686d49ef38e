#!/bin/sh
# Gathers what runs on a machine with a card and nothing else of ours, into bundle/ (ignored), which may
# be moved: bin/ has hspzd, hspz-client, test and measuring programs, lib/ the shared libraries they
# need, which they find beside them. With it, what tests/gpu/device.sh needs: oracle and genomes, and
# python/, a msgpack. And all of it as bundle.tar.gz, which is a third as large.
#
#   tests/gpu/bundle.sh [ARCH [BUILD]]      ARCH: compute capability, 90; BUILD: build-gpu
#   tests/gpu/bundle.sh soft [BUILD]        for the software card (tests/gpu/soft), without what measures; to rehearse
set -eu
cd "$(dirname "$0")/../.."
arch=${1:-90}
soft=
[ "$arch" != soft ] || soft=soft arch=90
build=${2:-build-gpu}
shared=${HSPZ_SHARED:-../shared}

# nvcc links. The older kind of path holds for what the libraries load, too.
# shellcheck disable=SC2016
beside='-Xlinker=--disable-new-dtags,-rpath=$ORIGIN/../lib'
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" -Dcuda=enabled -Dgpu-arch="$arch" -Dtests=enabled -Dsystemd=disabled -Dplot=disabled \
        -Dcuda_link_args="$beside"
fi
common="client/hspz-client tests/system/failing_hspzd tests/system/hits_to_keys tests/bench/simulate"
tests="cuda_open_test variants_test build_test cuda_filter_test cuda_counter_test cuda_filter_split_test cuda_kmer_test quotient_test quotient_parts_test discover_test oracle_test hsp_test hsp_oracle_test"
filter_tests="filter_mixed_test filter_hostile_test filter_rates_test filter_counts_test"
shared_modules="slow_reads fail_alloc count_copies"
if [ -n "$soft" ]; then
    # shellcheck disable=SC2046,SC2086
    ninja -C "$build" $common $(printf 'tests/gpu/soft/soft_%s ' hspzd lost_hspzd $tests $filter_tests) $(printf 'tests/system/%s.so ' $shared_modules)
else
    ninja -C "$build"
fi

rm -rf bundle
mkdir -p bundle/bin bundle/lib bundle/genomes
if [ -n "$soft" ]; then
    for program in hspzd lost_hspzd $tests $filter_tests; do
        cp "$build/tests/gpu/soft/soft_$program" "bundle/bin/$program"
    done
else
    common="$common daemon/hspzd tests/gpu/lost_hspzd tests/bench/build_bench tests/bench/expand_bench tests/bench/hsps_bench tests/bench/filter_bench tests/bench/filter_ways tests/bench/filter_paper tests/bench/kmers_bench tests/bench/quotient_bench tests/bench/split_bench tests/bench/stream_bench"
    for program in $tests; do
        common="$common tests/$program"
    done
    for program in $filter_tests; do
        common="$common tests/conformance/$program"
    done
fi
for program in $common; do
    cp "$build/$program" bundle/bin/
done
strip bundle/bin/*
for module in $shared_modules; do
    cp "$build/tests/system/$module.so" bundle/lib/
done
# One that this card cannot run, to see it say so: an older one that later cards have no use for.
if [ "$arch" != 80 ] && [ -z "$soft" ]; then
    [ -e "$build-old/build.ninja" ] || meson setup "$build-old" -Dcuda=enabled -Dgpu-arch=80 -Dtests=disabled -Dsystemd=disabled -Dcuda_link_args="$beside"
    ninja -C "$build-old" daemon/hspzd
    cp "$build-old/daemon/hspzd" bundle/bin/old_hspzd
    strip bundle/bin/old_hspzd
fi
# Everything but what every machine with a driver has.
# Other people's programs that the tests compare with.
mkdir -p bundle/tools
for program in lastz bgzip jellyfish; do
    cp -L "$(command -v $program)" bundle/tools/
done
for program in bundle/bin/* bundle/tools/*; do
    ldd "$program" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | grep -Ev '/(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt|libresolv|ld-linux[^/]*|libcuda)\.so' |
    while read -r library; do
        cp -L "$library" bundle/lib/
    done
for program in bundle/bin/hspzd bundle/bin/hspz-client; do
    if ! readelf -d "$program" | grep -q 'ORIGIN/../lib'; then
        echo "$program does not look beside itself for libraries: set up $build with" \
            "-Dcuda_link_args='$beside', or LD_LIBRARY_PATH where it runs" >&2
    fi
done
msgpack=$(/usr/bin/python3 -c 'import msgpack, os; print(os.path.dirname(msgpack.__file__))' || true)
if [ -n "$msgpack" ]; then
    # Without its compiled part, which is for one Python alone.
    mkdir -p bundle/python/msgpack
    cp -L "$msgpack"/*.py bundle/python/msgpack/
fi
if [ -d "$shared/oracle" ]; then
    mkdir -p bundle/shared
    cp -rL "$shared/oracle" "$shared/data" bundle/shared/
    chmod -R u+w bundle/shared
fi
for file in ragout/examples/E.Coli/references/MG1655-K12.fasta.gz \
    ragout/examples/H.Pylori/references/G27.fasta.gz bowtie/examples/genomes/NC_008253.fna.gz; do
    if [ -e "/usr/share/doc/$file" ]; then
        mkdir -p "bundle/genomes/$(dirname "$file")"
        cp -L "/usr/share/doc/$file" "bundle/genomes/$file"
    fi
done
if [ -z "$soft" ] && [ -e "$shared/sketches/discover_mappings.cu" ]; then
    nvcc -O3 -std=c++17 -arch="sm_$arch" -diag-suppress 3287,1444 \
        -o bundle/bin/discover_mappings "$shared/sketches/discover_mappings.cu"
fi
tar -czf bundle.tar.gz bundle
du -sh bundle bundle.tar.gz
