"""The installed tree: headers, both libraries and the pkg-config file are enough to build and run a
program of somebody else; the shared library shows nothing but its interface."""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hsp_stub import HspStub, matches  # noqa: E402
from stub import Index, Stub, reverse_complement  # noqa: E402
from test_shm_client import ShmStub  # noqa: E402

BUILD = os.environ["HSPZ_BUILD"]
HERE = os.path.dirname(os.path.abspath(__file__))


def output(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True,
                          **more).stdout


class BothStub(HspStub):
    def discover(self, peer, job, params):
        kind = HspStub if params.get("output") == "hsps" else Stub
        return kind.discover(self, peer, job, params)


class ShmBothStub(ShmStub, BothStub):
    pass


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = output("meson", "introspect", BUILD, "--buildoptions")
        if re.search(r'"name": "b_sanitize", "value": "(?!none)', options):
            raise unittest.SkipTest("a sanitizer build is not for others")
        cls.root = tempfile.mkdtemp(prefix="hspz-install-")
        cls.addClassCleanup(shutil.rmtree, cls.root)
        output("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.root)
        files = [os.path.join(d, f) for d, _, names in os.walk(cls.root) for f in names]
        cls.pc = [f for f in files if f.endswith("/hspz.pc")][0]
        cls.shared = [f for f in files if re.search(r"libhspz\.so\.\d+\.\d+\.\d+$", f)][0]
        cls.static = [f for f in files if f.endswith("/libhspz.a")][0]
        cls.client = [f for f in files if f.endswith("bin/hspz-client")][0]

    def flags(self, *what):
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.pc),
                           PKG_CONFIG_SYSROOT_DIR=self.root)
        return output("pkg-config", *what, "hspz", env=environment).split()

    def check_program(self, name, *libraries):
        program = os.path.join(self.root, name)
        output("cc", "-Wall", "-Wextra", "-Werror", "-o", program,
               os.path.join(HERE, "consumer.c"), *self.flags("--cflags"), *libraries)
        rng = random.Random(1)
        bases = "".join(rng.choice("ACGT") for _ in range(300))
        index = Index([("r", bases)])
        hits = [a for g in index.anchors(bases, ["plus", "minus"]) for a in g[4]]
        self.assertGreater(len(hits), 200)
        hsps = [h for text in (bases, reverse_complement(bases)) for h in matches(bases, text)]
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.shared))
        said = set()
        for kind in (BothStub, ShmBothStub):
            with kind(os.path.join(self.root, name + ".sock"), index) as server:
                said.add(output(program, server.address, bases, env=environment))
                requests = [m for m in server.requests if m[0] == 0]
                # One connection for all, though the first job on it was stopped.
                self.assertEqual([m[2] for m in requests if m[2] != "cancel"],
                                 ["hello", "shm.open"] + 8 * ["discover"])
                self.assertEqual(requests[-1][3][0]["hsps"], {"threshold": 1500})
                if kind is ShmBothStub:
                    # To callbacks and by the iterator, also of jobs that were given up: each place once, in order.
                    self.assertTrue(server.served.acquire(timeout=20))
                    self.assertGreater(len(server.places), 8 * 10)
                    self.assertEqual(server.freed, server.places)
        got = said.pop()
        self.assertEqual(said, set())
        self.assertEqual(got.split(), ["9.8.7", str(len(hits)), str(len(hits)),
                                       str(sum(a & 0xffffffff for a in hits)),
                                       str(len(hsps)), str(len(hsps)),
                                       str(sum(r + q + n + 100 * n for r, q, n in hsps))])

    def test_program_with_the_shared_library(self):
        self.check_program("shared", *self.flags("--libs"))

    def test_program_with_the_static_library(self):
        private = [f for f in self.flags("--libs", "--static") if f != "-lhspz"]
        self.check_program("static", self.static, *private)

    def test_headers_stand_alone_in_c_and_cpp(self):
        for compiler, language in (("cc", "c"), ("c++", "c++")):
            if shutil.which(compiler):
                subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x",
                                language, *self.flags("--cflags"), "-"], check=True,
                               input=b"#include <hspz/hspz.h>\nint main(void) { return 0; }\n")

    def test_shared_library_shows_only_its_interface(self):
        names = [line.split()[-1] for line in
                 output("nm", "-D", "--defined-only", self.shared).splitlines()]
        self.assertGreater(len(names), 10)
        header = ""
        for name in ("client/hspz.h", "protocol/status.h"):
            with open(os.path.join(os.environ["HSPZ_SOURCE"], name), encoding="utf-8") as f:
                header += f.read()
        for name in names:
            self.assertRegex(header, r"(?s)HSPZ_API [^;]*\b%s\(" % name)

    def test_library_neither_prints_nor_exits(self):
        """Of its own files; what may abort is a broken promise between our own functions."""
        for name in ("printf", "puts", "exit", "_exit", "perror", "signal", "setlocale", "getenv",
                     "stdout", "stderr"):
            for line in output("nm", "-A", "--undefined-only", self.static).splitlines():
                self.assertFalse(line.split()[-1] == name and "client_" in line, line)

    def test_installed_client_runs(self):
        self.assertRegex(output(self.client, "--version"), r"^hspz-client \d")


if __name__ == "__main__":
    unittest.main()
