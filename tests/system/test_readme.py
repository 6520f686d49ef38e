"""The session in README.md, typed as it stands there, shows what stands there."""

import os
import re
import subprocess
import unittest

import hspz_test
from hspz_test import SLOWER, child_env

MARK = "=====next====="


def session():
    """(command, lines shown) of the section's indented blocks."""
    with open(os.path.join(hspz_test.SOURCE, "README.md"), encoding="utf-8") as file:
        section = file.read().split("## One session by hand")[1].split("\n## ")[0]
    steps = []
    for line in section.split("\n"):
        if line.startswith("    $ "):
            steps.append((line[6:], []))
        elif line.startswith("    "):
            steps[-1][1].append(line[4:])
    return steps


class ReadmeTest(hspz_test.TestCase):
    @unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
    def test_the_session_shows_what_it_says(self):
        hspz_test.need_plot()
        steps = session()
        self.assertGreater(len(steps), 7)
        genomes = os.path.dirname(hspz_test.genome("ragout",
                                                   "examples/H.Pylori/references/G27.fasta.gz"))

        def here(text):
            text = text.replace("/usr/share/doc/ragout/examples/H.Pylori/references", genomes)
            return text.replace("/tmp/", self.folder + "/")
        script = "set -m\n" + "".join("%s\necho; echo %s\n" % (here(command), MARK)
                                      for command, _ in steps)
        folders = [os.path.dirname(hspz_test.HSPZD), os.path.dirname(hspz_test.CLIENT)]
        # All that a shell shows, in the order it does; what it says of its jobs goes elsewhere.
        done = subprocess.run(["bash", "-c", "exec 3>&2 2>&1\n" + script + "wait"],
                              capture_output=True, text=True, timeout=120 * SLOWER, check=False,
                              env=child_env(PATH=":".join(folders + [os.environ["PATH"]])))
        shown = done.stdout.split(MARK + "\n")
        self.assertEqual(len(shown), len(steps) + 1, done.stdout)
        compared = 0
        for (command, lines), got in zip(steps, shown):
            got = [line for line in got.split("\n") if line]
            if command.startswith("kill"):
                continue
            want = [here(line) for line in lines]
            self.assertEqual([self.plain(line) for line in got],
                             [self.plain(line) for line in want], command)
            compared += len(want)
        self.assertGreater(compared, 7)

    @staticmethod
    def plain(line):
        """Without times, and the memory that threads take at work."""
        line = re.sub(r"\b\d+\.\d s\b", "T s", line)
        return re.sub(r"^memory: \d+ bytes|work \d+\)", "", line)


if __name__ == "__main__":
    hspz_test.main()
