"""Anchors by columns are the packed ones, job by job, whatever the part size; and what may not be asked."""

import random
import struct

import hspz_test
from hspz_test import SHAPE_12OF19, bases, reverse_complement


def unpack(parts):
    """(packed anchors, run sizes of each part) of [head, payload] by columns."""
    out, sizes = [], []
    for head, payload in parts:
        assert head["encoding"] == "columnar", head
        count = head["hit_end"] - head["hit_begin"]
        runs = (len(payload) - 4 * count) // 8
        numbers = struct.unpack("<%dI" % (len(payload) // 4), payload)
        queries, counts, refs = numbers[:2 * runs:2], numbers[1:2 * runs:2], numbers[2 * runs:]
        assert len(refs) == count == sum(counts) and all(counts)
        at = 0
        for query, size in zip(queries, counts):
            out += [ref | query << 32 for ref in refs[at:at + size]]
            at += size
        sizes.append(counts)
    return struct.pack("<%dQ" % len(out), *out), sizes


def read_columns(data):
    """What `hspz-client discover --format columns` writes: (packed anchors, [(piece, strand, batch, block)] of the
    parts)."""
    at, packed, heads = 0, [], []
    while at < len(data):
        *head, runs, count = struct.unpack_from("<6I", data, at)
        payload = data[at + 24:at + 24 + 8 * runs + 4 * count]
        at += 24 + len(payload)
        part = {"encoding": "columnar", "hit_begin": 0, "hit_end": count}
        packed.append(unpack([(part, payload)])[0])
        heads.append(tuple(head))
    return b"".join(packed), heads


class ColumnsTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(21)
        unit = bases(rng, 400)
        core = bases(rng, 30000)
        # Repeats, so that seeds have many anchors, and a second block.
        self.index_file = self.index(
            [("a", core[:12000] + unit * 12), ("b", core[12000:20000] + "A" * 700),
             ("c", unit * 5 + core[20000:])], "--block-size", "10000")
        query = core[3000:9000] + unit * 4 + "A" * 500 + "&" + core[25000:29000].lower() + "&"
        query += reverse_complement(core[13000:16000]) + "N" * 50 + core[100:1100]
        self.query = query.encode()
        self.seeds = struct.pack("<6000Q", *[rng.randrange(1 << 24) << 32 | i
                                             for i in range(6000)])

    def jobs(self):
        query = {"query": {"bases": self.query}}
        return [
            query, dict(query, strand="minus"), dict(query, transitions=False),
            dict(query, unmask=True), dict(query, begin=100, end=7000), dict(query, max_hits=1),
            dict(query, max_hits=1000), dict(query, max_word_count=3),
            dict(query, interval=777), dict(query, interval=5000, max_hits=100),
            dict(query, chunk_walk="full", max_hits=333), dict(query, digest=False),
            {"seeds": self.seeds}, {"seeds": self.seeds, "max_hits": 2}, {"seeds": b""},
            {"query": {"bases": b""}},
        ]

    def compare(self, peer, job):
        packed, data, parts = peer.discover("ref", **job)
        self.assertTrue(all("encoding" not in head for head in parts))
        number = peer.request("discover", dict(job, index="ref", encoding="columnar"))
        result = peer.result(number)
        columns = [n[2] for n in peer.notices if n[2][0]["job"] == number]
        got, sizes = unpack(columns)
        if data:
            self.assert_same_anchors(got, data)
        self.assertEqual(got, data)
        for key in ("strands", "anchors", "hsps", "chunks", "max_hits", "index_digest"):
            self.assertEqual(result[key], packed[key])
        self.assertEqual(result.get("digest"), packed.get("digest"))
        # Chunks are the same, of parts without a gap.
        chunks = {}
        for heads in (parts, [head for head, _ in columns]):
            found = {}
            for head in heads:
                key = tuple(head.get(k) for k in ("interval", "strand", "batch", "ref_block",
                                                  "chunk"))
                begin, end, number_of = found.get(key, (head["hit_begin"], head["hit_begin"], 0))
                self.assertEqual((head["hit_begin"], head["part"]), (end, number_of))
                found[key] = (begin, head["hit_end"], number_of + 1)
                seeds = (head["seed_begin"], head["seed_end"])
                self.assertEqual(chunks.setdefault(key, seeds), seeds)
            chunks.setdefault("ends", {k: v[:2] for k, v in found.items()})
            self.assertEqual(chunks["ends"], {k: v[:2] for k, v in found.items()})
        return len(data) // 8, columns, sizes

    def test_columns_hold_the_packed_anchors_of_every_kind_of_job(self):
        for part_bytes, threads in (("64K", 1), ("64K", 3), ("1M", 2), ("8M", 1)):
            daemon = self.daemon("--part-bytes", part_bytes, threads=threads,
                                 indexes={"ref": self.index_file})
            total = 0
            with daemon.peer() as peer:
                for job in self.jobs():
                    with self.subTest(part_bytes=part_bytes, threads=threads,
                                      **{k: v for k, v in job.items()
                                         if k not in ("query", "seeds")}):
                        count, columns, _ = self.compare(peer, job)
                        total += count
                        room = int(part_bytes[:-1]) << (10 if part_bytes[-1] == "K" else 20)
                        self.assertTrue(all(len(payload) <= room for _, payload in columns))
            self.assertGreater(total, 500000)
            daemon.stop()

    def test_full_parts_are_filled_and_split_a_seed(self):
        """Poly-A: seeds of as many anchors as fit no part."""
        index = self.index([("r", "A" * 20100)], name="poly")
        daemon = self.daemon("--part-bytes", "64K", indexes={"ref": index})
        job = {"query": {"bases": b"A" * 69}, "strand": "plus", "transitions": False}
        with daemon.peer() as peer:
            count, columns, sizes = self.compare(peer, job)
        self.assertEqual(count, 51 * 20081)
        self.assertGreater(len(columns), 60)
        for _, payload in columns[:-1]:
            self.assertGreater(len(payload), 65536 - 12)
        self.assertEqual(max(map(len, sizes)), 2)
        # Half the bytes, and counted as such.
        size = sum(len(payload) for _, payload in columns)
        self.assertLess(size, 0.51 * 8 * count)
        with daemon.peer() as peer:
            indexes = {row["index"]: row for row in peer.call("stats")["indexes"]}
        self.assertEqual(indexes["ref"]["bytes_out"], 8 * count + size)
        daemon.stop()

    def test_columns_are_of_anchors_only(self):
        daemon = self.daemon(indexes={"ref": self.index_file})
        with daemon.peer() as peer:
            error = peer.error("discover", index="ref", query={"bases": b""}, output="hsps",
                               encoding="columnar")
            self.assert_code(error, "bad_request", 'hsps have no encoding "columnar"')
            error = peer.error("discover", index="ref", seeds=b"", encoding="columns")
            self.assert_code(error, "unsupported", '"encoding" is "columns"')
        daemon.stop()

    def test_the_client_gets_the_same_either_way(self):
        daemon = self.daemon(indexes={"ref": self.index_file})
        query = self.file("q.fa", ">q\n%s\n" % self.query.decode().replace("&", "\n>x\n"))
        for form in ("packed", "tsv"):
            outs = [self.output(daemon, query, "--format", form, "--encoding", encoding)
                    for encoding in ("packed", "columnar")]
            self.assertGreater(len(outs[0]), 100000)
            self.assertEqual(outs[0], outs[1])
        daemon.stop()

    def output(self, daemon, query, *options):
        out = self.path("out")
        daemon.client("discover", "ref", query, "-o", out, *options, check=0)
        with open(out, "rb") as file:
            return file.read()

    def test_the_client_writes_columns_as_they_come(self):
        """Several strands, batches, blocks of the reference and pieces of the query."""
        rng = random.Random(22)
        daemon = self.daemon("--part-bytes", "64K", "--max-query-bases", "300000",
                             indexes={"ref": self.index_file})
        text = self.query.decode().replace("&", "N")
        query = self.file("q.fa", ">q\n%s\n>p\n%s\n>o\n%s\n" % (
            text + bases(rng, 255000), text, bases(rng, 290000)))
        for options in ([], ["--no-digest"], ["--strand", "minus"], ["--max-hits", "100"]):
            want = self.output(daemon, query, "--format", "packed", *options)
            got = self.output(daemon, query, "--format", "columns", *options)
            self.assertGreater(len(want), 100000)
            anchors, heads = read_columns(got)
            self.assertEqual(anchors, want)
            # By piece, strand, batch and block, as they come.
            self.assertEqual(heads, sorted(heads))
            self.assertEqual([len(set(column)) for column in zip(*heads)],
                             [2, 1 if "minus" in options else 2, 2, 2])
            self.assertEqual(got, self.output(daemon, query, "--format", "columns", "--encoding",
                                              "columnar", *options))
        empty = self.file("none.fa", ">q\nAC\n")
        self.assertEqual(self.output(daemon, empty, "--format", "columns"), b"")
        seeds = self.path("seeds")
        with open(seeds, "wb") as file:
            file.write(self.seeds)
        packed, columns = [daemon.client("discover", "ref", "--seeds", seeds, "--format", form, text=False,
                                         check=0).stdout for form in ("packed", "columns")]
        self.assertEqual(read_columns(columns)[0], packed)
        for option in (["--encoding", "packed"], ["--masking", "3"], ["--hit-stats"]):
            done = daemon.client("discover", "ref", query, "--format", "columns", *option, check=2)
            self.assertIn("--format columns", done.stderr)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
