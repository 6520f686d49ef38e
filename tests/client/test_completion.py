"""What bash and zsh complete is what the programs take."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from test_manual import CLIENT, HSPZD, SOURCE, commands, options, said

BASH = os.path.join(SOURCE, "client", "completion", "hspz-client.bash")
ZSH = os.path.join(SOURCE, "client", "completion", "_hspz-client")


def bash(words, folder, function=None):
    """What bash's completion function answers where the last word is being typed."""
    function = function or ("_hspzd" if words[0] == HSPZD else "_hspz_client")
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ' + function + \
        '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", BASH] + words,
                          capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == "", done.stderr
    return [line for line in done.stdout.split("\n") if line]


def zsh(words, folder):
    """The same of zsh's, with its own calls for answers in place of those of its editor."""
    script = '''compadd() { [[ $1 == -- ]] && shift; local w
        for w in "$@"; do [[ $w == ${words[CURRENT]}* ]] && print -r -- $w; done; return 0 }
        _files() { local f; for f in ${words[CURRENT]}*(N); do
            [[ $1 == -/ && ! -d $f ]] || print -r -- $f; done; return 0 }
        file=$1; shift; words=("$@"); CURRENT=$#
        complete_here() { source $file }; complete_here'''
    done = subprocess.run(["zsh", "-f", "-c", script, "zsh", ZSH] + words, capture_output=True,
                          text=True, check=True, cwd=folder)
    assert done.stderr == "", done.stderr
    return [line for line in done.stdout.split("\n") if line]


@unittest.skipIf("ASAN_OPTIONS" in os.environ, "shows nothing new under a sanitizer")
class CompletionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = [name for name, _ in commands()]

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hspz-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(os.path.join(self.folder, "dir"))
        for name in ("query.fa", "query.tsv", "other"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
                pass

    def check(self, complete):
        def client(*words):
            return sorted(set(complete([CLIENT] + list(words), self.folder)))
        names = self.names
        self.assertEqual(client(""), sorted({n.split()[0] for n in names}))
        for group in ("index", "filter", "kmers"):
            self.assertEqual(client(group, ""),
                             sorted(n.split()[1] for n in names if n.startswith(group + " ")))
        self.assertEqual(client("--server", "unix:/x", "-q", "dis"), ["discover"])
        self.assertEqual(client("hsps", "--format", "p"), ["packed", "paf"])
        self.assertEqual(client("filter", "create", "x", "--kind", "b"), ["blocked", "bloom"])
        self.assertEqual(client("compare", "qu"), ["query.fa", "query.tsv"])
        self.assertEqual(client("hsps", "r", "q", "-o", "o"), ["other"])
        self.assertEqual(client("hsps", "r", "q", "--out-dir", ""), ["dir"])
        self.assertEqual(client("--token-file", "o"), ["other"])
        common = options(said(CLIENT, "--help").split("Options of every command:")[1])
        self.assertEqual(set(client("-")), common)
        # Every option of some with unlike helps; the test of the manual goes through all.
        for name in ("hsps", "kegalign", "filter insert", "kmers count"):
            text = said(CLIENT, *name.split(), "--help").split("Example:")[0]
            text = text.replace("LASTZ's --segments", "")
            self.assertEqual(set(client(*name.split(), "-")), options(text) | common, name)
        whole = set(re.findall(r"^  (--[a-z][\w-]*)", said(HSPZD, "--help", "all"), re.M))
        self.assertEqual(set(complete([HSPZD, "--"], self.folder)),
                         (whole | {"--version"}) - {"--tenants"})
        self.assertEqual(sorted(complete([HSPZD, "--engine", "c"], self.folder)), ["cpu", "cuda"])

    def test_bash(self):
        self.check(bash)
        self.assertEqual(sorted(bash([CLIENT, "discover", "--format", "=", ""], self.folder)),
                         ["columns", "jsonl", "packed", "tsv"])

    def test_zsh(self):
        if shutil.which("zsh") is None:
            self.skipTest("no zsh")
        self.check(zsh)

    def test_bash_takes_it_for_both_programs(self):
        done = subprocess.run(["bash", "--norc", "-c", 'source "$1"; complete -p', "bash", BASH],
                              capture_output=True, text=True, check=True)
        for name in ("hspz-client", "hspzd"):
            self.assertRegex(done.stdout, r"complete .*-F _\w+ %s\n" % name)


if __name__ == "__main__":
    unittest.main()
