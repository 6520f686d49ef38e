"""LASTZ as an oracle of discovery: its command lines, and what it prints as multisets.

All raw seed hits that LASTZ prints are, as a multiset, all-positions discovery over both strands.
LASTZ and hspz agree on masks: lower case seeds on neither side unless unmasked, nor does N. LASTZ
warns about empty sequences and goes on. It knows no IUPAC codes by default, so none are used."""

import os
import subprocess
from collections import Counter

import numpy

import hspz_test

HITS_TO_KEYS = os.path.join(hspz_test.BUILD, "tests", "system", "hits_to_keys")


def lastz_command(ref, query, shape, transitions, step, unmask, columns):
    marks = "[multiple,unmask]" if unmask else "[multiple]"
    return [hspz_test.tool("lastz"), ref + marks, query + ("[unmask]" if unmask else ""),
            "--seed=" + shape, "--transition" if transitions else "--notransition",
            "--step=%d" % step, "--nogfextend", "--nochain", "--nogapped",
            "--format=general-:" + columns]


def lastz_hits(*args):
    columns = "name1,zstart1,end1,name2,zstart2+,end2+,strand2"
    done = subprocess.run(lastz_command(*args, columns), capture_output=True, text=True,
                          check=True)
    return Counter(done.stdout.splitlines())


def keys_of(command, columns, **more):
    """Sorted 64-bit keys of the hits that a program prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          **more) as printer:
        with subprocess.Popen([HITS_TO_KEYS] + [str(c) for c in columns], stdin=printer.stdout,
                              stdout=subprocess.PIPE) as parser:
            printer.stdout.close()
            keys = numpy.frombuffer(parser.stdout.read(), dtype=numpy.uint64).copy()
        if parser.returncode or printer.wait():
            raise AssertionError("%s: %s, %s" % (command[0], printer.returncode,
                                                 parser.returncode))
    keys.sort()
    return keys
