"""hspz-client plot: the PNG's pixels and the SVG's lines stand where the matches are, and pictures look as
those in pictures/, which were looked at. HSPZ_KEEP_PICTURES=yes puts what is drawn now in their place: look at it."""

import gzip
import os
import random
import re
import shutil
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy

import hspz_test
from hspz_test import SHAPE_12OF19, bases, client, fasta, reverse_complement
from test_hit_stats import CLASSES, counts_of

HEADER = "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand\n"
BLUE, ORANGE, DARK, WHITE = (0, 0x72, 0xb2), (0xd5, 0x5e, 0), (0x22, 0x22, 0x22), (255, 255, 255)
PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
SVG = "{http://www.w3.org/2000/svg}"


def read_png(path):
    """Rows of RGB of a PNG of 8 bits and no palette, by the PNG specification."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, packed, head = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        head = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    width, height, depth, colour = head[:4]
    assert depth == 8 and colour in (2, 6) and head[6] == 0, head
    step = 3 if colour == 2 else 4
    raw = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, 1 + width * step)
    rows = numpy.zeros((height, width * step), numpy.uint8)
    above = numpy.zeros(width * step, numpy.int64)
    for y in range(height):
        kind, line = raw[y, 0], raw[y, 1:].astype(numpy.int64)
        if kind == 1:
            for i in range(step):
                line[i::step] = numpy.cumsum(line[i::step])
        elif kind == 2:
            line += above
        elif kind in (3, 4):
            for i in range(width * step):
                a = line[i - step] if i >= step else 0
                b, c = above[i], above[i - step] if i >= step else 0
                if kind == 3:
                    guess = (a + b) // 2
                else:
                    guess = min((a, b, c), key=lambda v: abs(a + b - c - v))
                line[i] = (line[i] + guess) & 255
        above = line & 255
        rows[y] = above
    return rows.reshape(height, width, step)[:, :, :3]


def frame_of(pixels):
    """(left, top, width, height) inside the plot's frame: the longest dark lines."""
    dark = (pixels == DARK).all(axis=2)
    columns, rows = dark.sum(axis=0), dark.sum(axis=1)
    x = numpy.flatnonzero(columns > 0.9 * columns.max())
    y = numpy.flatnonzero(rows > 0.9 * rows.max())
    return x[0] + 1, y[0] + 1, x[-1] - x[0] - 1, y[-1] - y[0] - 1


def blurred(path):
    """Means of squares of 8 x 8 pixels: letters and edges may be drawn a little otherwise elsewhere."""
    pixels = read_png(path).astype(float)
    high, wide = pixels.shape[0] // 8, pixels.shape[1] // 8
    return pixels[:high * 8, :wide * 8].reshape(high, 8, wide, 8, 3).mean(axis=(1, 3))


class Plot:
    """A PNG with places in it by shares of the axes."""

    def __init__(self, path):
        self.pixels = read_png(path)
        self.left, self.top, self.wide, self.high = frame_of(self.pixels)

    def inside(self):
        return self.pixels[self.top:self.top + self.high, self.left:self.left + self.wide]

    def near(self, x, y, colour, reach=2):
        """Whether a pixel about this colour is near the place."""
        column = int(round(self.left + x * self.wide))
        row = int(round(self.top + (1 - y) * self.high))
        some = 255 - self.pixels[max(row - reach, self.top):row + reach + 1,
                                 max(column - reach, self.left):column + reach + 1].astype(float)
        ink = 255 - numpy.array(colour, float)
        much = (some * ink).sum(axis=2) / (ink * ink).sum()  # of it, on white
        return bool(((much > 0.4) & (abs(some - much[:, :, None] * ink).sum(axis=2) < 60)).any())


def svg_lines(path):
    """(colour, [x0, y0, x1, y1]) of all lines, and the frame (x, y, width, height)."""
    lines, frame = [], None
    for node in ElementTree.parse(path).iter(SVG + "path"):
        style, d = node.get("style", ""), node.get("d")
        found = re.search(r"stroke:rgb\(([\d.]+)%,([\d.]+)%,([\d.]+)%\)", style)
        if not found:
            continue
        colour = tuple(int(round(float(c) * 2.55)) for c in found.groups())
        numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", d)]
        if "Z" in d and colour == DARK:
            xs, ys = numbers[0::2], numbers[1::2]
            frame = (min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))
        elif colour in (BLUE, ORANGE):
            lines += [(colour, numbers[i:i + 4]) for i in range(0, len(numbers), 4)]
    return lines, frame


class PlotTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        hspz_test.need_plot()

    def plot(self, *args, name="out.png", run=client, status=0):
        """Small pictures: their pixels are decoded in Python."""
        out = self.path(name)
        size = [] if "--hits" in args else ["--width", "400", "--height", "360"]
        return run("plot", *args, *size, "-o", out, check=status), out

    # r1 of 1000 and r2 of 3000 bases against q1 of 2000 and q2 of 2000.
    ROWS = [("r1", 0, 1000, "q1", 0, 1000, "+"), ("r2", 500, 2500, "q2", 0, 2000, "-"),
            ("r2", 2900, 3000, "q1", 1900, 2000, "+")]
    BEGINS = {"r1": 0, "r2": 1000, "q1": 0, "q2": 2000}
    ALL = 4000

    def expect(self, rows=ROWS):
        """(colour, ends) of each row in shares of the axes."""
        for ref, r0, r1, query, q0, q1, strand in rows:
            y = [q0, q1] if strand == "+" else [q1, q0]
            r, q = self.BEGINS[ref], self.BEGINS[query]
            yield (BLUE if strand == "+" else ORANGE,
                   ((r + r0) / self.ALL, (q + y[0]) / self.ALL,
                    (r + r1) / self.ALL, (q + y[1]) / self.ALL))

    def tsv(self, rows=ROWS):
        return HEADER + "".join("\t".join(map(str, row)) + "\n" for row in rows)

    def check_png(self, path):
        plot = Plot(path)
        for colour, (x0, y0, x1, y1) in self.expect():
            other = ORANGE if colour == BLUE else BLUE
            for part in (0.1, 0.35, 0.5, 0.75, 0.9):
                x, y = x0 + part * (x1 - x0), y0 + part * (y1 - y0)
                self.assertTrue(plot.near(x, y, colour), (path, x, y))
                self.assertFalse(plot.near(x, y, other))
        for x, y in ((0.1, 0.9), (0.9, 0.9), (0.05, 0.3), (0.3, 0.3)):
            self.assertFalse(plot.near(x, y, BLUE, 6) or plot.near(x, y, ORANGE, 6))
        return plot

    def check_svg(self, path, rows=ROWS):
        lines, (left, top, wide, high) = svg_lines(path)
        got = sorted((colour, [(l[0] - left) / wide, 1 - (l[1] - top) / high,
                               (l[2] - left) / wide, 1 - (l[3] - top) / high])
                     for colour, l in lines)
        want = sorted((colour, list(ends)) for colour, ends in self.expect(rows))
        self.assertEqual([c for c, _ in got], [c for c, _ in want])
        for (_, one), (_, other) in zip(got, want):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=0.003)

    def test_matches_stand_where_they_are_in_every_format(self):
        texts = {"rows.tsv": self.tsv()}
        lens = {"r1": 1000, "r2": 3000, "q1": 2000, "q2": 2000}
        texts["x.paf"] = "".join(
            "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t9\t9\t0\tcg:Z:9=\n"
            % (q, lens[q], q0, q1, s, r, lens[r], r0, r1)
            for r, r0, r1, q, q0, q1, s in self.ROWS)
        os.mkdir(self.path("folder"))
        for strand, name in (("+", "folder/tmp0.plus.segments"), ("-", "folder/tmp0.minus.segments")):
            texts[name] = "".join(
                "%s\t%d\t%d\t%s\t%d\t%d\t%s\t3000\n"
                % (r, r0 + 1, r1, q, *((q0 + 1, q1) if s == "+" else
                                       (lens[q] - q1 + 1, lens[q] - q0)), s)
                for r, r0, r1, q, q0, q1, s in self.ROWS if s == strand)
        files = {name: self.file(name, text) for name, text in texts.items()}
        files["rows.tsv.gz"] = self.file("rows.tsv.gz", gzip.compress(self.tsv().encode()))
        ref = self.file("ref.fa", fasta([(n, "A" * lens[n]) for n in ("r1", "r2")]))
        query = self.file("query.fa", fasta([(n, "A" * lens[n]) for n in ("q1", "q2")]))
        known = ["--ref", ref, "--query", query]
        for name in ("rows.tsv", "rows.tsv.gz", "folder", "x.paf"):
            self.check_svg(self.plot(self.path(name), *known, name="out.svg")[1])
        self.check_png(self.plot(self.path("folder"), *known)[1])
        refused, _ = self.plot(self.path("folder"), status=1)
        self.assertIn("--query", refused.stderr)
        # Standard input to standard output, by format.
        done = client("plot", "-", *known, "-o", "-", "--format", "svg", check=0, text=False,
                      stdin=self.tsv().encode())
        self.check_svg(self.file("piped.svg", done.stdout))

    def test_a_range_is_all_that_shows(self):
        file = self.file("rows.tsv", self.tsv())
        done, out = self.plot(file, "--ref-range", "r2:500-2500", "--query-range", "q2", "-v")
        self.assertIn("3 matches, 1 of them shown", done.stderr)
        plot = Plot(out)
        for part in (0.1, 0.5, 0.9):
            self.assertTrue(plot.near(part, 1 - part, ORANGE))
            self.assertFalse(plot.near(part, part * 0.8, BLUE))
        wrong = (["--ref-range", "r3"], ["--ref-range", "r2:1-9999"], ["--query-range", "q2:9-3"])
        for args in wrong:
            done, _ = self.plot(file, *args, name="no.png", status=1)
            self.assertIn(args[0], done.stderr)
            self.assertFalse(os.path.exists(self.path("no.png")))

    def test_wrong_input_is_said_with_its_line(self):
        for text, what in ((self.tsv() + "r1\t5\t5\tq1\t1\t2\t+\n", "line 5"),
                           ("{\"ref\":\"a\"}\n", "line 1"), ("\0" * 16, "packed"),
                           ("a b\n", "7, 8"), ("", "no matches"), ("x" * 300000, "too long"),
                           ("a\t1\t5000000000\tb\t1\t2\t+\n", "4294967296")):
            done, _ = self.plot(self.file("in", text), name="no.png", status=1)
            self.assertIn(what, done.stderr)
            self.assertFalse(os.path.exists(self.path("no.png")))
        short = self.file("short.fa", fasta([("r1", "A" * 900), ("r2", "A" * 3000)]))
        done, _ = self.plot(self.file("rows.tsv", self.tsv()), "--ref", short, status=1)
        self.assertIn("shorter", done.stderr)
        for args in (["x"], ["x", "-o", "y", "--hits"], ["a", "b", "-o", "y", "--ref", "f"],
                     ["x", "-o", "y", "--anchors"], ["a", "b", "-o", "y", "--hits", "--anchors"],
                     ["a", "b", "-o", "y", "--hits", "--width", "799"]):
            client("plot", *args, check=2)

    def test_millions_are_shaded_and_chance_is_left_out(self):
        rng = random.Random(2)
        rows = [HEADER]
        for i in range(60000):
            x = rng.randrange(100000)
            rows.append("r\t%d\t%d\tq\t%d\t%d\t+\n" % (x, x + 19, x, x + 19))
            x, y = rng.randrange(100000), rng.randrange(100000)
            rows.append("r\t%d\t%d\tq\t%d\t%d\t%s\n" % (x, x + 19, y, y + 19, "+-"[i % 2]))
        _, out = self.plot(self.file("rows.tsv", "".join(rows)))
        plot = Plot(out)
        for part in (0.1, 0.3, 0.5, 0.7, 0.9):
            self.assertTrue(plot.near(part, part, BLUE), part)
        inside = plot.inside()
        white = (inside == WHITE).all(axis=2).sum() / (inside.shape[0] * inside.shape[1])
        self.assertGreater(white, 0.5)
        self.assertLess(white, 0.995)

    def test_what_the_server_finds_is_what_its_rows_show(self):
        rng = random.Random(8)
        core = bases(rng, 12000)
        ref = [("r1", core[:8000]), ("r2", core[8000:])]
        query = [("q1", core[2000:6000]), ("q2", reverse_complement(core[7200:10800]))]
        query_file = self.file("q.fa", fasta(query))
        daemon = self.daemon(indexes={"ref": self.index(ref)})
        rows = self.path("rows.tsv")
        daemon.client("hsps", "ref", query_file, "-o", rows, check=0)
        _, live = self.plot("ref", query_file, run=daemon.client, name="live.png")
        ref_file = self.file("r.fa", fasta(ref))
        _, filed = self.plot(rows, "--ref", ref_file, "--query", query_file, name="filed.png")
        one, other = Plot(live), Plot(filed)
        self.assertTrue((one.inside() == other.inside()).all())
        # The diagonals that were put there.
        for part in (0.1, 0.5, 0.9):
            self.assertTrue(one.near((2000 + 4000 * part) / 12000, 4000 * part / 7600, BLUE))
            self.assertTrue(one.near((8000 + 2800 * part) / 12000,
                                     (4000 + 2800 * (1 - part)) / 7600, ORANGE))
        anchors, out = self.plot("ref", query_file, "--anchors", "-v", run=daemon.client)
        listed = daemon.client("discover", "ref", query_file, check=0).stdout.count("\n") - 1
        self.assertIn("%d matches, %d of them shown" % (listed, listed), anchors.stderr)
        self.assertTrue(Plot(out).near(4000 / 12000, 2000 / 7600, BLUE))
        self.check_hits(daemon, ref, query, query_file)

    def check_hits(self, daemon, ref, query, query_file):
        """Bars are as high as the recounted shares, the curve ends where all hits are."""
        _, out = self.plot("ref", query_file, "--hits", run=daemon.client, name="hits.svg")
        counts = [c for some in counts_of(ref, query, True, shape=SHAPE_12OF19) for c in some]
        bars = {BLUE: [], ORANGE: []}
        for node in ElementTree.parse(out).iter(SVG + "path"):
            found = re.search(r"fill:rgb\(([\d.]+)%,([\d.]+)%,([\d.]+)%\)", node.get("style", ""))
            colour = found and tuple(int(round(float(c) * 2.55)) for c in found.groups())
            if colour in bars:
                numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", node.get("d"))]
                bars[colour].append((min(numbers[0::2]), max(numbers[1::2]) - min(numbers[1::2])))
        full = 540 - 96 - 64  # of a bar of 100 %
        for colour, weight in ((BLUE, lambda c: 1), (ORANGE, lambda c: c)):
            # The key's is the first; classes of nothing have none.
            shares = [high / full for _, high in sorted(bars[colour][1:])]
            want = [sum(weight(c) for c in counts if low <= c <= top) / sum(map(weight, counts))
                    for _, low, top in CLASSES]
            want = [share for share in want if share > 0]
            self.assertEqual(len(shares), len(want))
            self.assertGreater(len(want), 0)
            for share, wanted in zip(shares, want):
                self.assertAlmostEqual(share, wanted, delta=0.002)
        lines, _ = svg_lines(out)
        self.assertTrue(lines)

    def check_picture(self, name, *args, run=client):
        out = self.path(name)
        run("plot", *args, "-o", out, check=0)
        kept = os.path.join(PICTURES, name)
        if os.environ.get("HSPZ_KEEP_PICTURES"):
            os.makedirs(PICTURES, exist_ok=True)
            shutil.copyfile(out, kept)
        got, want = blurred(out), blurred(kept)
        self.assertEqual(got.shape, want.shape)
        apart = abs(got - want)
        self.assertLess(apart.mean(), 1, name)
        self.assertLess((apart.max(axis=2) > 48).mean(), 0.005, name)
        # The bounds tell pictures apart: upside down it is another one.
        self.assertGreater(abs(got[::-1] - want).mean(), 2)

    def test_two_ecoli_look_as_they_should(self):
        folder = hspz_test.shared("oracle", "ecoli")
        self.check_picture("ecoli.png", folder, "--ref", hspz_test.mg1655(),
                           "--query", hspz_test.nc_008253(), "--width", "560", "--height", "480",
                           "--title", "E. coli MG1655 and 536")

    def test_31_sequences_look_as_they_should(self):
        # A genome in 31 pieces against the same in another order, every third turned round.
        rng = random.Random(31)
        lengths = [int(400000 / (i + 1) ** 0.7) for i in range(31)]
        order = rng.sample(range(31), 31)
        ref = [("chr%d" % (i + 1), "A" * lengths[i]) for i in range(31)]
        query = [("scaffold_%d" % i, "A" * lengths[i]) for i in order]
        rows = [HEADER]
        for i, length in enumerate(lengths):
            for begin in range(0, length - 2000, 2500):
                end = begin + rng.randrange(300, 2300)
                there = (length - end, length - begin, "-") if i % 3 == 2 else (begin, end, "+")
                rows.append("chr%d\t%d\t%d\tscaffold_%d\t%d\t%d\t%s\n" % (i + 1, begin, end, i, *there))
        self.check_picture("sequences31.png", self.file("rows.tsv", "".join(rows)),
                           "--ref", self.file("r.fa", fasta(ref)),
                           "--query", self.file("q.fa", fasta(query)),
                           "--width", "560", "--height", "480", "--title", "31 sequences")

    def test_hits_look_as_they_should(self):
        rng = random.Random(5)
        text = bases(rng, 20000)
        text += text[:6000] + text[:3000] * 3 + bases(rng, 40) * 120
        daemon = self.daemon(indexes={"ref": self.index([("r", text)])})
        self.check_picture("hits.png", "ref", self.file("q.fa", fasta([("q", text[::2] + text)])),
                           "--hits", "--title", "Hits per seed", run=daemon.client)


if __name__ == "__main__":
    hspz_test.main()
