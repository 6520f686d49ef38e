# %% [markdown]
# # Two strains of one species
#
# Where do two strains of *H. pylori* agree? This needs a server with one of them as an index (the
# README of the tree, "One session by hand"), and the other as FASTA. `HSPZ_SERVER` says where the
# server is; the cells below run one after the other, in a notebook or as a script.

# %%
import os

import numpy as np

import hspz

INDEX = os.environ.get("HSPZ_INDEX", "pylori")
QUERY = os.environ.get("HSPZ_QUERY", "ELS37.fasta.gz")

client = hspz.connect(wait=60)
index = client.describe(INDEX)
query = hspz.Query.from_fasta(QUERY)
print("reference: %d sequences, %d bases" % (len(index.sequences), index.sequences.lengths.sum()))
print("query: %d sequences, %d bases" % (len(query), query.lengths.sum()))

# %% [markdown]
# ## Anchors
#
# They come in parts; what is kept of each is up to the loop. A diagonal is the query position minus
# the reference position: where strains are alike, many anchors share one.

# %%
BIN = 10000
diagonals = {strand: np.zeros(0, np.int64) for strand in ("plus", "minus")}
discovery = client.discover(INDEX, query, transitions=False, transport="auto")
for part in discovery:
    diagonal = part.query.astype(np.int64) - part.reference
    bins = (diagonal + index.bases) // BIN
    size = max(len(diagonals[part.strand]), int(bins.max()) + 1)
    diagonals[part.strand] = (np.bincount(bins, minlength=size)
                              + np.pad(diagonals[part.strand],
                                       (0, size - len(diagonals[part.strand]))))
print("anchors: %d, of them plus %d" % (discovery.summary.anchors, discovery.summary.plus.hits))
for strand, counts in diagonals.items():
    best = int(counts.argmax())
    print("most on one diagonal, %s: %d" % (strand, counts[best]))

# %% [markdown]
# ## HSPs
#
# What the anchors grow to without gaps. How much of the reference do they cover?

# %%
covered = np.zeros(index.sequences.lengths.sum() + 1, np.int64)
starts = np.concatenate(([0], np.cumsum(index.sequences.lengths)))
longest = 0
hsps = client.hsps(INDEX, query)
for hsp_part in hsps:
    rows = index.windows(hsp_part, query)
    np.add.at(covered, starts[rows.ref] + rows.ref_start, 1)
    np.add.at(covered, starts[rows.ref] + rows.ref_end, -1)
    longest = max(longest, int(hsp_part.length.max()))
share = (np.cumsum(covered)[:-1] > 0).mean()
print("HSPs: %d, the longest of %d bases" % (hsps.summary.hsps, longest))
print("of the reference covered: %.1f %%" % (100 * share))

# %% [markdown]
# ## A filter
#
# Which of the query's words of 12 bases are in a set of the server's? First the words of one strand, as
# numbers of 24 bits; then half of them go in.

# %%
codes = np.full(256, 255, np.uint8)
codes[list(b"ACGT")] = range(4)
bases = codes[np.frombuffer(query.bases, np.uint8)]
windows = np.lib.stride_tricks.sliding_window_view(bases, 12)
windows = windows[(windows < 4).all(axis=1)]
words = np.unique(windows @ (4 ** np.arange(11, -1, -1, dtype=np.uint64)))
name = "words-%d" % os.getpid()
seen = client.filters.create(name, "tcf", capacity=len(words))
try:
    seen.insert(words[::2])
    answers = seen.query(words)
    print("words: %d, put in: %d" % (len(words), len(words[::2])))
    print("found: all %s, of the others %.4f %%"
          % (answers.present[::2].all(), 100 * answers.present[1::2].mean()))
finally:
    seen.drop()
client.close()
