#!/bin/sh
# Runs bundle/, or bundle.tar.gz (tests/gpu/bundle.sh), on a machine with a card: conformance on every variant of the
# CUDA engine, a subset under each sanitizer, then the measurements. Logs go to $OUT (default out/).
#
#   tests/gpu/device.sh [tests] [card] [system] [served] [soak] [fair] [sanitize] [bench] [hsps]
#                       [jobs] [wire] [filters] [keys] [paper] [sketches] [gpus]
#
# All but `paper`, `sketches` and `gpus` when none is named. `card` has what only a card can show, `system` the black-box
# tests of the daemon with the CUDA engine, `fair` shares by weight and what small batches wait beside a tenant with
# a chunk of 2^31 hits, `keys` filters against exact sets and counts, `paper` experiments on filters, `gpus` what several
# GPUs of one host do, as many as there are.
#
# Ends with a table of all results and a line of counts, in less than 12,000 characters; non-zero when anything failed.
# HSPZ_SECONDS (570): after so many nothing more is begun, and what runs is stopped. HSPZ_CARD_SYSTEM: which of
# the black-box tests; HSPZ_CARD_OPTIONS: hspzd's options in them. HSPZ_FILTER_OPERATIONS (60000000): of `keys`.
set -u
cd "$(dirname "$0")/../.." || exit
out=${OUT:-out}
mkdir -p "$out"
[ -d bundle ] || tar -xzf bundle.tar.gz || exit
export LD_LIBRARY_PATH="$PWD/bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$PATH:$PWD/bundle/tools"
export HSPZ_REQUIRE=gpu HSPZ_SHARED="$PWD/bundle/shared"
[ -d bundle/shared ] && HSPZ_REQUIRE=shared,gpu
[ -d bundle/genomes ] && mkdir -p /usr/share/doc && cp -rn bundle/genomes/. /usr/share/doc/
[ $# -gt 0 ] || set -- tests card system served soak fair sanitize bench hsps jobs wire filters keys
# The programs as the tests know them, in a build folder.
export HSPZ_BUILD="$PWD/bundle/build" PYTHONPATH="$PWD/bundle/python${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$HSPZ_BUILD/daemon" "$HSPZ_BUILD/client" "$HSPZ_BUILD/tests/system" "$HSPZ_BUILD/tests/gpu" \
    "$HSPZ_BUILD/tests/bench"
for file in daemon/hspzd client/hspz-client tests/gpu/lost_hspzd tests/gpu/old_hspzd tests/system/failing_hspzd \
    tests/system/hits_to_keys tests/bench/stream_bench tests/bench/simulate; do
    ln -sf "$PWD/bundle/bin/${file##*/}" "$HSPZ_BUILD/$file"
done
for file in slow_reads.so fail_alloc.so; do
    ln -sf "$PWD/bundle/lib/$file" "$HSPZ_BUILD/tests/system/$file"
done
passed=0
failed=
begun=$(date +%s)
# So that what is stopped has said where it was.
lines=$(command -v stdbuf || true)

# seconds WANTED: as many as are left of them
seconds() {
    left=$((${HSPZ_SECONDS:-570} - ($(date +%s) - begun)))
    [ "$left" -gt "$1" ] && left=$1
    echo "$left"
}

# note NAME CODE SECONDS: a line of the table at the end; the names of tests that failed, from $out/last
note() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "$1;ok;$3" >>"$out/results"
        echo "ok $1 ($3 s)"
    else
        failed="$failed $1,"
        case $2 in
        124) what="TIME OVER" ;;
        125) what="not begun" ;;
        *) what="FAILED $2" ;;
        esac
        echo "$1;$what;$3" >>"$out/results"
        echo "$what: $1"
        sed 's/\x1b\[[0-9;]*m//g' "$out/last" | grep -v '^\[ *\(OK\|RUN\)' | tail -25 | cut -c1-200
        grep -E '^(\[  FAILED  \] [a-z]|FAIL:|ERROR:|FAILED )' "$out/last" | sort -u | head -12 |
            cut -c1-110 | sed "s/^/$1: /" >>"$out/failed"
    fi
}

# run SECONDS NAME COMMAND...: its output to $out/log, the end of it here when it fails
run() {
    limit=$(seconds "$1")
    name=$2
    shift 2
    from=$(date +%s)
    if [ "$limit" -lt 2 ]; then
        code=125
        : >"$out/last"
    else
        timeout -k 5 "$limit" ${lines:+"$lines" -oL} "$@" >"$out/last" 2>&1
        code=$?
    fi
    { echo "== $name: $code" && cat "$out/last"; } >>"$out/log"
    note "$name" "$code" "$(($(date +%s) - from))"
}

# side SECONDS NAME COMMAND...: like run, begun now and told by `meet`. What takes most of its time on the host or waits runs
# beside others; nothing that measures does.
side() {
    limit=$(seconds "$1")
    name=$2
    shift 2
    : >"$out/side_$name"
    echo "125 0" >"$out/side_$name.code"
    names="$names$name
"
    [ "$limit" -ge 2 ] || return
    (from=$(date +%s)
    timeout -k 5 "$limit" ${lines:+"$lines" -oL} "$@" >"$out/side_$name" 2>&1
    echo "$? $(($(date +%s) - from))" >"$out/side_$name.code") &
}

meet() {
    wait
    printf %s "$names" >"$out/names"
    while read -r name; do
        mv "$out/side_$name" "$out/last"
        read -r code took <"$out/side_$name.code"
        { echo "== $name: $code" && cat "$out/last"; } >>"$out/log"
        note "$name" "$code" "$took"
        rm -f "$out/side_$name.code"
    done <"$out/names"
    rm -f "$out/names"
    names=
}

names=
: >"$out/log"
: >"$out/results"
: >"$out/failed"
nvidia-smi -L || true
for part; do
    case $part in
    tests)
        run 60 open bundle/bin/cuda_open_test
        side 120 discover bundle/bin/discover_test
        side 120 "discover,8 GiB" env HSPZ_TEST_CUDA=0,0,0,8589934592 bundle/bin/discover_test
        side 300 build bundle/bin/build_test
        side 300 filters bundle/bin/cuda_filter_test
        side 120 kmers bundle/bin/cuda_kmer_test
        side 120 counter bundle/bin/cuda_counter_test
        side 300 quotient bundle/bin/quotient_test
        side 120 "quotient,parts" bundle/bin/quotient_parts_test
        side 120 "filters,parts" bundle/bin/cuda_filter_split_test
        for mapping in 1 2 3 4; do
            side 120 "discover,$mapping" env HSPZ_TEST_SHARE=4 HSPZ_TEST_CUDA=$mapping,1024,1,0 bundle/bin/discover_test
        done
        side 200 hsps bundle/bin/hsp_test
        for mapping in 1 2 3 4; do
            side 200 "hsps,$mapping" env HSPZ_TEST_CUDA=$mapping,1024,1,0 bundle/bin/hsp_test
        done
        side 200 "hsps,oracle" bundle/bin/hsp_oracle_test
        side 200 "hsps,oracle,8 GiB" env HSPZ_TEST_CUDA=0,65536,0,8589934592 bundle/bin/hsp_oracle_test
        side 120 oracle bundle/bin/oracle_test
        side 120 "oracle,wait,8 GiB" env HSPZ_TEST_CUDA=0,0,1,8589934592 bundle/bin/oracle_test
        meet
        # Launch after launch: beside others it waits for each of them.
        run 200 variants bundle/bin/variants_test
        ;;
    keys)
        for name in hostile mixed rates counts; do
            side 300 "keys,$name" env HSPZ_FILTER_OPERATIONS="${HSPZ_FILTER_OPERATIONS:-60000000}" \
                "bundle/bin/filter_${name}_test"
        done
        meet
        ;;
    card)
        run 300 card python3 tests/gpu/test_card.py
        ;;
    system)
        # Each daemon has its share of the card.
        export HSPZ_TEST_ENGINE=cuda HSPZ_TEST_OPTIONS="${HSPZ_CARD_OPTIONS:---device-memory 8G}"
        for name in ${HSPZ_CARD_SYSTEM:-cases protocol_peer exact faults start oracle columns shm hsps ecoli}; do
            side 450 "system $name" python3 "tests/system/test_$name.py"
        done
        meet
        unset HSPZ_TEST_ENGINE HSPZ_TEST_OPTIONS
        ;;
    served)
        run 200 served python3 tests/gpu/served.py smoke
        cat "$out/last"
        ;;
    soak)
        run 500 soak python3 tests/gpu/served.py soak
        cat "$out/last"
        ;;
    fair)
        run 60 fair env HSPZ_TEST_ENGINE=cuda HSPZ_TEST_SLOWER=1 python3 tests/system/test_fair.py \
            FairTest.test_weights_share_the_device FairTest.test_an_interactive_tenant_hardly_notices_a_bulk_one
        cat "$out/last"
        ;;
    sanitize)
        for tool in memcheck racecheck initcheck; do
            side 300 "$tool" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/variants_test quick
            side 200 "$tool,build" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/build_test quick
            side 200 "$tool,filters" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/cuda_filter_test quick
            side 200 "$tool,kmers" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/cuda_kmer_test quick
            side 200 "$tool,counter" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/cuda_counter_test least
            side 300 "$tool,quotient" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/quotient_test quick
            side 200 "$tool,quotient,parts" compute-sanitizer --tool $tool --error-exitcode 9 \
                bundle/bin/quotient_parts_test quick
        done
        meet
        ;;
    bench)
        run 200 expand bundle/bin/expand_bench
        cat "$out/last"
        run 100 stream bundle/bin/stream_bench
        cat "$out/last"
        run 200 build_bench bundle/bin/build_bench
        cat "$out/last"
        ;;
    hsps)
        # Pairs of three kinds, with what KegAlign's extension does on the like, in 10^9 hits a second.
        pairs=$(mktemp -d)
        examples=/usr/share/doc
        run 200 "hsps, ecoli" bundle/bin/hsps_bench --unmask --kegalign 0.074 \
            $examples/ragout/examples/E.Coli/references/MG1655-K12.fasta.gz \
            $examples/bowtie/examples/genomes/NC_008253.fna.gz
        cat "$out/last"
        run 60 "simulate, 20 Mbp" bundle/bin/simulate --bases 20000000 "$pairs/r.fa" "$pairs/q.fa"
        run 200 "hsps, unmasked" bundle/bin/hsps_bench --unmask --kegalign 0.38 "$pairs/r.fa" "$pairs/q.fa"
        cat "$out/last"
        run 120 "simulate, 100 Mbp" bundle/bin/simulate --bases 100000000 "$pairs/r.fa" "$pairs/q.fa"
        run 200 "hsps, masked" bundle/bin/hsps_bench --kegalign 0.58 "$pairs/r.fa" "$pairs/q.fa"
        cat "$out/last"
        rm -rf "$pairs"
        ;;
    jobs)
        # Whole jobs, with what KegAlign 0.1.2.7 took for the like with 16 threads, in seconds.
        pairs=$(mktemp -d)
        examples=/usr/share/doc
        for bases in 20000000 100000000; do
            run 60 "simulate $bases" bundle/bin/simulate --bases $bases "$pairs/r$bases.fa" "$pairs/q$bases.fa"
        done
        run 200 jobs python3 tests/bench/whole_job.py --hspzd bundle/bin/hspzd --client bundle/bin/hspz-client \
            ecoli+unmask 4.2 $examples/ragout/examples/E.Coli/references/MG1655-K12.fasta.gz \
            $examples/bowtie/examples/genomes/NC_008253.fna.gz \
            20Mbp+unmask 22.3 "$pairs/r20000000.fa" "$pairs/q20000000.fa" \
            100Mbp 13.9 "$pairs/r100000000.fa" "$pairs/q100000000.fa"
        cat "$out/last"
        rm -rf "$pairs"
        ;;
    wire)
        # What comes to a client of the same machine, by transport and encoding.
        run 60 "transport cost" env HSPZ_TEST_ENGINE=cuda HSPZ_TEST_OPTIONS="--shm-memory 1G --part-bytes 8M" \
            python3 tests/bench/transport_cost.py 2 36000
        cat "$out/last"
        ;;
    filters)
        run 300 filter_bench bundle/bin/filter_bench
        cat "$out/last"
        run 300 quotient_bench bundle/bin/quotient_bench
        cat "$out/last"
        run 200 kmers_bench bundle/bin/kmers_bench
        cat "$out/last"
        ;;
    paper)
        run 100 filter_ways bundle/bin/filter_ways
        cat "$out/last"
        for mode in bits groups "counts 22 24"; do
            # shellcheck disable=SC2086
            run 100 "filter_paper, $mode" bundle/bin/filter_paper $mode 26
            cat "$out/last"
        done
        ;;
    gpus)
        # Of what measures, the software card has only that by hspzd, in which a step takes seconds.
        if [ -e bundle/bin/stream_bench ]; then
            run 120 "gpus, discover" bundle/bin/stream_bench --bases 503316480 --devices
            cat "$out/last"
            run 60 "gpus, filters" bundle/bin/split_bench 28
            cat "$out/last"
            set --
        else
            set -- --bases 100000 --clients 1 --tiny 20 --hang-ms 60000 --timeout-ms 30000 --limit 300
        fi
        run 400 "gpus, hspzd" env HSPZ_TEST_ENGINE=cuda python3 tests/bench/gpus.py "$@"
        cat "$out/last"
        ;;
    sketches)
        run 200 sketches bundle/bin/discover_mappings
        cat "$out/last"
        ;;
    esac
done
rm -f "$out/last"
echo "== results"
cut -c1-110 "$out/failed" | head -60
awk -F';' '{ printf "%-24.24s %-9s %4d s%s", $1, $2, $3, NR % 2 ? "   " : "\n" } END { if (NR % 2) print "" }' "$out/results"
echo "$passed passed, failed:${failed:- none}"
[ -z "$failed" ]
