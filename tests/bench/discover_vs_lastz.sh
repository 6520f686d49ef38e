#!/bin/sh
# Discovery of one E. coli strain in another: LASTZ printing its seed hits against daemon and client
# writing the same ones packed, with one engine thread and with two; alternating, in one run.
#
#   tests/bench/discover_vs_lastz.sh [BUILD_FOLDER] [ROUNDS]
set -eu
build=${1:-build}
rounds=${2:-3}
ref=/usr/share/doc/ragout/examples/E.Coli/references/MG1655-K12.fasta.gz
query=/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz
work=$(mktemp -d)
daemon=
trap 'test -z "$daemon" || kill "$daemon"; rm -rf "$work"' EXIT

gzip -dc "$ref" >"$work/ref.fa"
gzip -dc "$query" >"$work/query.fa"

now() {
    date +%s.%N
}

# timed NAME COMMAND...: seconds of the command, one line in $work/NAME
timed() {
    name=$1
    shift
    begin=$(now)
    "$@"
    end=$(now)
    echo "$begin $end" | awk '{ print $2 - $1 }' >>"$work/$name"
}

median() {
    sort -n "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

run_lastz() {
    lastz "$work/ref.fa[multiple,unmask]" "$work/query.fa[unmask]" --seed=12of19 --transition \
        --nogfextend --nochain --nogapped \
        --format=general-:name1,zstart1,end1,name2,strand2,zstart2+,end2+ >"$work/lastz.out"
}

run_hspz() {
    "$build/client/hspz-client" --server "unix:$work/hspz.sock" discover ecoli "$work/query.fa" \
        --unmask --format packed -o "$work/hspz.out"
}

start() {
    "$build/daemon/hspzd" --socket "$work/hspz.sock" --engine cpu --threads "$1" \
        --index "ecoli=$work/ref.hspz" 2>"$work/log" &
    daemon=$!
    "$build/client/hspz-client" --server "unix:$work/hspz.sock" --wait 60 health >/dev/null
}

stop() {
    kill "$daemon"
    wait "$daemon"
    daemon=
}

"$build/client/hspz-client" index build "$work/ref.fa" -o "$work/ref.hspz" --unmask --all-positions
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    timed lastz run_lastz
    for threads in 1 2; do
        start "$threads"
        timed "hspz$threads" run_hspz
        stop
    done
done

lines=$(wc -l <"$work/lastz.out")
anchors=$(($(wc -c <"$work/hspz.out") / 8))
echo "hits: lastz $lines, hspz $anchors"
test "$lines" -eq "$anchors" && test "$anchors" -gt 0
for threads in 1 2; do
    echo "$(median lastz) $(median "hspz$threads") $threads" |
        awk '{ printf "lastz %.2f s, hspz %.2f s with %d thread(s): %.1f times as fast\n", $1, $2, $3, $1 / $2 }'
done
