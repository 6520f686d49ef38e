"""The archive for nodes where nothing can be installed: it needs only what it says, and does a job from
wherever it is unpacked."""

import glob
import os
import random
import re
import subprocess

import hspz_test
from hspz_test import SOURCE, bases


class TarballTest(hspz_test.TestCase):
    def test_unpacked_anywhere_it_does_a_job(self):
        script = os.path.join(SOURCE, "daemon", "packages", "tarball.sh")
        given = os.environ.get("HSPZ_TARBALL")
        if given is None:
            done = subprocess.run(["sh", script, "--build", self.path("build"), "--output", self.folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
            given, = glob.glob(self.path("hspz-*.tar.gz"))
        place = self.path("some where")
        os.mkdir(place)
        subprocess.run(["tar", "-xzf", given, "-C", place], check=True)
        top, = glob.glob(os.path.join(place, "*"))
        with open(os.path.join(top, "REQUIRES"), encoding="utf-8") as file:
            most = tuple(map(int, re.search(r"glibc ([\d.]+) or later", file.read()).group(1).split(".")))
        found = set()
        for program in ("hspzd", "hspz-client"):
            path = os.path.join(top, "bin", program)
            for line in subprocess.run(["ldd", path], capture_output=True, text=True,
                                       check=True).stdout.splitlines():
                self.assertNotIn("not found", line)
                # Its own, or the C library's.
                self.assertRegex(line, r"=> %s/|/(libc|libm|ld-linux-[\w-]+)\.so\.\d|linux-vdso"
                                 % re.escape(os.path.join(top, "bin", "..", "lib")))
            text = subprocess.run(["objdump", "-T", path], capture_output=True, text=True,
                                  check=True).stdout
            found |= {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d[\d.]*)", text)}
        self.assertLessEqual(max(found), most)
        for name in ("hspz-slurm", "servers.sbatch", "queries.sbatch", "README.md"):
            self.assertTrue(os.path.isfile(os.path.join(top, "slurm", name)), name)
        rng = random.Random(1)
        ref = [("r", bases(rng, 9000))]
        query = [("q", ref[0][1][2000:5000])]
        paths = [self.file(name + ".fa", hspz_test.fasta(records))
                 for name, records in (("r", ref), ("q", query))]
        env = {"PATH": os.path.join(top, "bin")}
        subprocess.run(["hspz-client", "index", "build", paths[0], "-o", self.path("r.hspz")], env=env,
                       check=True, capture_output=True)
        sock = self.path("hspz.sock")
        daemon = subprocess.Popen(["hspzd", "--socket", sock, "--index", "r=" + self.path("r.hspz"),
                                   "--die-with-parent"], env=env, stderr=subprocess.DEVNULL)
        try:
            done = subprocess.run(["hspz-client", "--server", "unix:" + sock, "--wait", "240", "discover",
                                   "r", paths[1], "--format", "packed"], env=env, check=True,
                                  capture_output=True)
        finally:
            daemon.terminate()
            status = daemon.wait()
        self.assert_same_anchors(done.stdout, hspz_test.discover(ref, query))
        self.assertEqual(status, 0)


if __name__ == "__main__":
    hspz_test.main()
