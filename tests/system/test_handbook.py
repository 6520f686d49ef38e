"""The handbook's sessions show what stands there, its configurations are some, its programs run."""

import json
import os
import re
import subprocess
import sys
import unittest

import hspz_test
from hspz_test import HSPZD, SLOWER, child_env

MARK = "=====next====="
HANDBOOK = os.path.join(hspz_test.SOURCE, "client", "handbook")
GENOMES = "/usr/share/doc/ragout/examples/H.Pylori/references"


def chapter(name):
    with open(os.path.join(HANDBOOK, name), encoding="utf-8") as file:
        return file.read()


def session(text):
    """[command, lines shown] of the indented blocks; `> ` continues a command."""
    steps = []
    for line in re.sub(r"```.*?```", "", text, flags=re.S).split("\n"):
        if line.startswith("    $ "):
            steps.append([line[6:], []])
        elif line.startswith("    > "):
            steps[-1][0] += "\n" + line[6:]
        elif line.startswith("    "):
            steps[-1][1].append(line[4:])
    return steps


def blocks(text, language):
    return re.findall(r"```%s\n(.*?)```" % language, text, re.S)


def plain(line):
    """Without times, and what the memory of threads at work adds up to."""
    line = re.sub(r"\b\d+\.\d s\b", "T s", line)
    return re.sub(r"^memory: \d+ bytes|work \d+\)", "", line)


class HandbookTest(hspz_test.TestCase):
    def run_session(self, steps):
        """What each command shows, in one shell."""
        genomes = os.path.dirname(hspz_test.genome("ragout",
                                                   "examples/H.Pylori/references/G27.fasta.gz"))
        script = "".join("%s\necho; echo %s\n" % (command.replace(GENOMES, genomes), MARK)
                                      for command, _ in steps)
        folders = [os.path.dirname(HSPZD), os.path.dirname(hspz_test.CLIENT),
                   os.path.join(hspz_test.SOURCE, "client", "slurm")]
        done = subprocess.run(["bash", "-c", "exec 3>&2 2>&1\n" + script], capture_output=True,
                              text=True, timeout=120 * SLOWER, check=False, cwd=self.folder,
                              env=child_env(PATH=":".join(folders + ["/usr/bin", os.environ["PATH"]])))
        shown = done.stdout.split(MARK + "\n")
        self.assertEqual(len(shown), len(steps) + 1, done.stdout)
        return [[line for line in one.split("\n") if line] for one in shown[:-1]]

    def check_session(self, text, least):
        steps = session(text)
        self.assertGreater(len(steps), least)
        for (command, want), got in zip(steps, self.run_session(steps)):
            self.assertEqual([plain(line) for line in got], [plain(line) for line in want], command)

    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_user(self):
        hspz_test.need_plot()
        self.check_session(chapter("user.md"), 18)

    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_operator(self):
        text = chapter("operator.md")
        self.check_session(text, 12)
        configs = blocks(text, "json")
        self.assertEqual(len(configs), 3)
        for config in configs:
            file = self.file("config.json", config)
            json.loads(config)
            done = subprocess.run([HSPZD, "--config", file, "--check-config", "--socket",
                                   self.path("s")], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_cluster(self):
        self.file("cluster_model.py", chapter("cluster_model.py"))
        self.check_session(chapter("cluster.md"), 15)

    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_the_model_says_what_is_wrong_with_its_options(self):
        model = os.path.join(HANDBOOK, "cluster_model.py")
        for arguments, told in ((["plan", "--nodes"], "Options of `plan`"), ([], "Options of `plan`"),
                                (["plan", "--node", "3"], "no option --node"),
                                (["plan", "--nodes", "0"], "--nodes: 0 is no number over 0"),
                                (["plan", "--bases", "5 M"], "--bases: 5 M is no number over 0")):
            done = subprocess.run([sys.executable, model, *arguments], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn(told, done.stderr)

    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_protocol(self):
        text = chapter("protocol.md")
        self.file("client.py", "\n".join(blocks(text, "python")))
        self.check_session(text, 5)


if __name__ == "__main__":
    hspz_test.main()
