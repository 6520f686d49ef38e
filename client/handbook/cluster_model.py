#!/usr/bin/env python3
"""What a comparison of many genomes with many takes on a cluster, from rates that were measured.

    cluster_model.py check                         what it says of what was measured
    cluster_model.py plan [OPTION VALUE ...]       time and bytes of each stage, longest first

Options of `plan`, with what they are unless given: --genomes 1000 (of each side), --bases 5e6 (of one),
--unmasked 1 (the share that seeds), --hsps 26954 (of a pair), --nodes 100, --gpus 1 (of a node), --cores 64,
--card 139e9 (bytes for indexes on a card), --block 500e6 (bases that share an index), --net 10e9 and
--files 20e9 (bytes a second: of a node's network, of the file system for all), --excess 1.4 (hits to those by chance).

The measurements are those of tests/bench/NOTES.md: an H200 with 16 cores, but for LASTZ and the CPU engine.
"""
import math
import sys

# [bases of the query, of the reference, hits, hits that pass the gate, HSPs, seconds: gate, extension and
# sorting, whole job in the engine, resident, cold]: sections "HSPs on a card" and "Whole jobs".
PAIRS = {
    "E. coli, unmasked": [4.94e6, 4.64e6, 53.7e6, .079, 26954, .00363, .00521, .038, .048, .75],
    "20 Mbp, unmasked": [20e6, 20e6, 827e6, .056, 2819194, .0513, .0498, .70, .93, 2.2],
    "100 Mbp, masked": [100e6, 100e6, 6237e6, .0029, 381188, .375, .0503, .74, 1.05, 2.8],
}
BATCH = 250000  # positions
WORDS = 4 ** 12
WORDS_A_POSITION = 13  # exact, and one transition in each of twelve places
CPU_SECONDS_A_HIT = 7.4 / 53.7e6  # "HSPs against LASTZ": daemon and client
LASTZ_SECONDS_AN_HSP = 187.2 / 26954  # "Alignments in pieces"
TEXT_BYTES_AN_HSP = 2.2e6 / 26954
HSP_BYTES = 16


def least_squares(rows, values):
    """x, y >= 0 with x a + y b near `values`, for rows (a, b), relative to them."""
    saa = sab = sbb = sa = sb = 0.0
    for (a, b), value in zip(rows, values):
        a, b = a / value, b / value
        saa, sab, sbb, sa, sb = saa + a * a, sab + a * b, sbb + b * b, sa + a, sb + b
    both = saa * sbb - sab * sab
    x, y = (sa * sbb - sb * sab) / both, (sb * saa - sa * sab) / both
    if x < 0:
        return 0.0, sb / sbb
    return (x, y) if y >= 0 else (sa / saa, 0.0)


class Model:
    """Seconds of a job: gate and extension at their rates; then a batch's turn and an HSP's settling,
    the client's work for bases and HSPs, and a start's for itself and an index, from two constants each."""

    def __init__(self):
        pairs = list(PAIRS.values())
        self.gate = sum(p[2] for p in pairs) / sum(p[5] for p in pairs)
        self.extend = sum(p[2] * p[3] for p in pairs) / sum(p[6] for p in pairs)
        self.batch, self.settle = least_squares(
            [(batches(p[0]), p[4]) for p in pairs], [p[7] - self.kernels(p[2], p[3]) for p in pairs])
        self.base, self.hsp = least_squares([(p[0], p[4]) for p in pairs], [p[8] - p[7] for p in pairs])
        self.start, self.index = least_squares([(1, p[1]) for p in pairs], [p[9] - p[8] for p in pairs])

    def kernels(self, hits, passing):
        return hits / self.gate + hits * passing / self.extend

    def engine(self, query, hits, passing, hsps):
        return self.kernels(hits, passing) + batches(query) * self.batch + hsps * self.settle

    def client(self, query, hsps):
        return query * self.base + hsps * self.hsp


def batches(query):
    """Of both strands."""
    return 2 * math.ceil(query / BATCH)


def hits_by_chance(query, ref, unmasked, strands=2, words=WORDS_A_POSITION):
    return strands * words * query * ref * unmasked ** 2 / WORDS


def check():
    model = Model()
    print("%-28s %10s %10s %6s" % ("seconds", "measured", "model", "ratio"))

    def row(what, measured, reckoned):
        print("%-28s %10.3g %10.3g %6.2f" % (what, measured, reckoned, reckoned / measured))
    for name, p in PAIRS.items():
        engine = model.engine(p[0], p[2], p[3], p[4])
        resident = engine + model.client(p[0], p[4])
        row(name + ": engine", p[7], engine)
        row("  and client", p[8], resident)
        row("  and start and index", p[9], resident + model.start + p[1] * model.index)
    print("hits: 1.4 times those by chance")
    row("E. coli", 53.7e6, 1.4 * hits_by_chance(4.94e6, 4.64e6, 1))
    row("20 Mbp", 827e6, 1.4 * hits_by_chance(20e6, 20e6, 1))
    row("100 Mbp", 6237e6, 1.4 * hits_by_chance(100e6, 100e6, .55))
    row("1 Gbp, + strand, exact", 25.438e9, 1.4 * hits_by_chance(1e9, 1e9, .55, 1, 1))
    print("GB/s of anchors to the host: the bus, for each card")
    row("1 GPU", 52.4, 54.7)
    row("2 GPUs", 104.5, 2 * 54.7)


def amount(value, unit):
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return "%.3g %s%s" % (value / scale, letter, unit)
    return "%.3g %s" % (value, unit)


def duration(seconds):
    for scale, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * scale:
            return "%.1f %s" % (seconds / scale, unit)
    return "%.1f s" % seconds


def plan(o):
    model = Model()
    count, bases, nodes, cards = o["genomes"], o["bases"], o["nodes"], o["nodes"] * o["gpus"]
    pairs = count * count
    hits = o["excess"] * hits_by_chance(bases, bases, o["unmasked"])
    # A query is asked once of each index, which is that of as many references as are in a block.
    shared = max(1, min(count, math.floor(o["block"] / bases)))
    jobs = count * math.ceil(count / shared)
    passing = min(.079, .079 * o["hsps"] / 26954 / (hits / 53.7e6))
    engine = pairs * (model.kernels(hits, passing) + o["hsps"] * model.settle) + \
        jobs * batches(bases) * model.batch
    client = jobs * model.client(bases, shared * o["hsps"])
    text = pairs * o["hsps"] * TEXT_BYTES_AN_HSP
    table = 4 * WORDS * 1.5  # and the groups of buckets beside it
    alone, together = table + 4.5 * bases, table / shared + 4.5 * bases
    rows = [
        ("LASTZ, if HSPs become alignments", pairs * o["hsps"] * LASTZ_SECONDS_AN_HSP / nodes / o["cores"]),
        ("GPUs: seeds to HSPs", engine / cards),
        ("clients, a core each", client / nodes / o["cores"]),
        ("the file system: HSPs as text", text / o["files"]),
        ("network: queries and HSPs",
         (jobs * bases + pairs * o["hsps"] * HSP_BYTES) / nodes / o["net"]),
        ("starts, and indexes of all on each node", model.start + count * bases * model.index),
    ]
    print("%s pairs, %s jobs, %s hits" % (amount(pairs, "").strip(), amount(jobs, "").strip(),
                                          amount(pairs * hits, "").strip()))
    for what, seconds in sorted(rows, key=lambda row: -row[1]):
        print("%-40s %10s" % (what, duration(seconds)))
    print("%-40s %10s" % ("(without GPUs: the CPU engine)",
                          duration(pairs * hits * CPU_SECONDS_A_HIT / nodes / o["cores"])))
    print("%-40s %10s" % ("bytes of text", amount(text, "B")))
    print("%-40s %10s" % ("--job-memory for a job's HSPs", amount(4 * HSP_BYTES * shared * o["hsps"], "B")))
    for what, size in (("an index for each reference", alone), ("references that share indexes", together)):
        needs = math.ceil(count * size / o["card"])
        print("%-40s %10s  %s" % (what, amount(count * size, "B"), "one card holds them" if needs == 1 else
                                  "%d cards hold them" % needs))


def main(arguments):
    options = {"genomes": 1000, "bases": 5e6, "unmasked": 1, "hsps": 26954, "nodes": 100, "gpus": 1, "cores": 64,
               "card": 139e9, "block": 500e6, "net": 10e9, "files": 20e9, "excess": 1.4}
    if arguments == ["--help"]:
        print(__doc__.strip())
        return
    if arguments == ["check"]:
        check()
        return
    names, values = arguments[1::2], arguments[2::2]
    if arguments[:1] != ["plan"] or len(names) != len(values):
        sys.exit(__doc__)
    for name, value in zip(names, values):
        if name[:2] != "--" or name[2:] not in options:
            sys.exit("cluster_model.py: there is no option %s" % name)
        try:
            number = float(value)
        except ValueError:
            number = 0
        if not 0 < number < 1e18:
            sys.exit("cluster_model.py: %s: %s is no number over 0" % (name, value))
        options[name[2:]] = number
    plan(options)


if __name__ == "__main__":
    main(sys.argv[1:])
