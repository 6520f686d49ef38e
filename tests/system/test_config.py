"""Configuration, logs, build and locale: what an operator or a packager meets."""

import json
import os
import re
import shutil
import subprocess
import unittest

import hspz_test
from hspz_test import HSPZD, child_env


class ConfigTest(hspz_test.TestCase):
    def check_config(self, text, *args):
        path = self.file("hspzd.json", text)
        done = subprocess.run([HSPZD, "--config", path, "--check-config", *args],
                              capture_output=True, text=True, env=child_env(), timeout=60,
                              check=False)
        return done.returncode, done.stdout + done.stderr, path

    def accept(self, text, *args):
        status, said, _ = self.check_config(text, *args)
        self.assertEqual(status, 0, said)
        return said

    def refuse(self, text, *words):
        status, said, path = self.check_config(text)
        self.assertIn(status, (1, 2), said)
        self.assertIn(path, said)
        for word in words:
            self.assertIn(str(word), said)
        return said

    def test_a_file_of_addresses_needs_its_folder(self):
        self.accept('{"address_file": "%s"}' % self.path("hspz"))
        status, said, _ = self.check_config('{"address_file": "%s"}' % self.path("none/hspz"))
        self.assertEqual(status, 1)
        self.assertIn("address_file: " + self.path("none"), said)

    def test_example_of_the_readme_is_accepted(self):
        with open(os.path.join(hspz_test.SOURCE, "README.md"), encoding="utf-8") as f:
            example = re.search(r"\n    \{\n.*?\n    \}\n", f.read(), re.DOTALL).group()
        config = json.loads(example)
        ref = self.file("ref.fa", ">r\n" + "ACGTTGCAAC" * 9 + "\n")
        index = self.path("pylori.hspz")
        hspz_test.build_index(ref, index)
        self.assertEqual(list(config["indexes"]), ["pylori"])
        config["indexes"]["pylori"] = index
        said = self.accept(json.dumps(dict(config, socket=self.path("s"))))
        self.assertIn("index pylori: ", said)
        self.assertIn("of %d bytes" % (int(config["memory"].rstrip("G")) << 30), said)

    def test_e10_integers_are_exact_or_refused(self):
        self.accept('{"socket": "%s", "max_message": 4294967296}' % self.path("s"))
        for value in ("9223372036854775808", "18446744073709551615"):
            self.refuse('{"max_connections": %s}' % value, value, "line 1")
        for value in ("1e10", "1.5", '"8"', "-1",
                      "true", "null", "[]", "{}", "0", "9223372036854775807"):
            with self.subTest(value):
                self.refuse('{"max_connections": %s}' % value, "max_connections")

    def test_e10_documents_that_are_none_are_refused_with_a_line(self):
        self.refuse('{"threads": 1, "threads": 2}', "threads")
        self.refuse('{\n"thread": 1}', "thread")
        self.refuse('{\n"threads": 1,\n}', "3")
        self.refuse("\ufeff{}")
        for text in ("", "[]", "5", "{", '{"threads": 1} x', "{'threads': 1}"):
            with self.subTest(text):
                self.refuse(text)

    def test_e07_deep_nesting_is_refused(self):
        self.refuse("[" * 100000)
        self.refuse('{"indexes": ' + '{"a":' * 100000 + "1" + "}" * 100001)

    def test_every_key_is_a_flag_and_flags_win(self):
        said = subprocess.run([HSPZD, "--help"], capture_output=True, text=True, check=True).stdout
        for flag in ("--socket", "--listen", "--engine", "--threads", "--index", "--config",
                     "--check-config"):
            self.assertIn(flag, said)
        daemon = self.daemon("--log-format", "json", config={"log_format": "text", "max_jobs": 3})
        with daemon.peer() as peer:
            self.assertEqual(peer.welcome["limits"]["max_jobs"], 3)
        self.assertIsInstance(json.loads(daemon.log().splitlines()[-1]), dict)
        daemon.stop()

    def test_help_fits_a_screen_and_has_all_when_asked(self):
        def said(*args):
            return subprocess.run([HSPZD, *args], capture_output=True, text=True,
                                  check=True).stdout
        short, whole = said("--help"), said("--help", "all")
        self.assertEqual(whole, said("--help=all"))
        self.assertLessEqual(len(short.splitlines()), 24)
        self.assertIn("--help all", short)
        self.assertNotIn("--ingest-total", short)
        for text in (short, whole):
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)
                self.assertEqual(line, line.rstrip())
        for flag in re.findall(r"^  (--[a-z-]+)", short, re.M) + ["--ingest-total", "--lanes"]:
            self.assertIn(flag, whole)

    def test_e18_the_version_says_what_it_was_built_for(self):
        said = subprocess.run([HSPZD, "--version"], capture_output=True, text=True,
                              check=True).stdout
        self.assertRegex(said, r"^hspzd \d+\.\d+\.\d+\nprotocol 1\nengine cpu\n")
        for line in said.splitlines()[3:]:
            self.assertRegex(line, r"^engine cuda: runtime CUDA \d+\.\d+, driver (none|CUDA \d.*), "
                                   r"built for .*\d")

    def test_semantic_errors_name_the_line(self):
        self.refuse('{\n"threads": 1,\n"max_jobs": "8"}', "line 3: max_jobs")
        self.refuse('{\n"index": {"a": "f"}}', "line 2", 'did you mean "indexes"')
        self.accept('{"memory": "64G"}')

    def test_what_the_start_refuses_is_refused(self):
        for args, word in (
                (("--listen", "0.0.0.0:99"), "no loopback address"),
                (("--index-dir", self.path("nodir")), "nodir"),
                (("--data-dir", self.file("plain", "x")), "is no folder"),
                (("--socket", self.path("no/where/s")), "no/where"),
                (("--socket", self.file("s2", "x")), "s2"),
                (("--socket", "/tmp/" + "x" * 200), "longer than"),
                (("--socket", ""), "nothing to listen on")):
            with self.subTest(args=args):
                for more in (["--check-config"], []):
                    done = subprocess.run([HSPZD, *([] if "--socket" in args else
                                                    ["--socket", self.path("s")]), *args, *more],
                                          capture_output=True, text=True, env=child_env(),
                                          timeout=30, check=False)
                    self.assertEqual(done.returncode, 1, (done, more))
                    self.assertIn(word, done.stderr)

    def test_without_a_runtime_folder_the_way_out_is_said(self):
        env = child_env()
        env.pop("XDG_RUNTIME_DIR", None)
        if os.access("/run/hspz", os.W_OK):
            self.skipTest("there is such a folder")
        program = shutil.copy(HSPZD, self.path("hspzd"))
        os.chmod(self.folder, 0o755)
        user = {"user": 65534} if os.geteuid() == 0 else {}  # root would make it
        done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=30,
                              check=False, cwd="/", **user)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--socket PATH", done.stderr)

    def test_a_socket_for_all_that_lets_nobody_else_in_is_warned_of(self):
        for mode, tenants, warned in (("0666", False, True), ("0660", False, True),
                                      ("0600", False, False), ("0666", True, False)):
            config = {"socket": self.path("s"), "socket_mode": mode}
            if tenants:
                config["tenants"] = [{"name": "all", "uids": [os.getuid()]}]
            said = self.accept(json.dumps(config))
            self.assertEqual("warning: socket_mode %s: without tenants" % mode in said, warned, said)

    def test_what_is_printed_and_cannot_be_written_is_a_failure_that_is_told(self):
        for args in (["--help"], ["--help", "all"], ["--version"], ["--check-config"]):
            for path in ("/dev/full", os.devnull):
                with open(path, "wb") as out:
                    done = subprocess.run([HSPZD, "--socket", self.path("s"), *args], stdout=out,
                                          stderr=subprocess.PIPE, text=True, env=child_env(),
                                          timeout=30, check=False)
                self.assertEqual(done.returncode, 1 if path == "/dev/full" else 0, done)
                self.assertEqual("standard output: cannot write: No space" in done.stderr,
                                 path == "/dev/full", done)

    def test_flags_are_checked(self):
        for args, word in ((("--threads", "1e1"), "--threads"), (("--threads",), "--threads"),
                           (("--nope",), "--nope"), (("--engine", "gpu"), "gpu"),
                           (("--index", "x"), "x"), (("--listen", "host"), "host"),
                           (("--max-jobs", "5x"), "5x"), (("stray",), "stray")):
            done = subprocess.run([HSPZD, "--check-config", *args], capture_output=True, text=True,
                                  env=child_env(), timeout=30, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(word, done.stderr)

    def test_c09_an_engine_that_is_not_there_is_a_clear_failure(self):
        done = subprocess.run([HSPZD, "--engine", "cuda", "--socket", self.path("s")],
                              capture_output=True, text=True, timeout=30, check=False,
                              env=child_env(CUDA_VISIBLE_DEVICES=""))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("cuda", done.stderr.lower())
        self.assertFalse(os.path.exists(self.path("s")))

    def test_log_lines_are_json_whatever_is_in_them(self):
        daemon = self.daemon("--log-format", "json", "--log-level", "debug")
        with daemon.peer(hello=False) as peer:
            for name in ('quo"te\\ \n\x01', 'quo"te\\ é'):
                peer.response(peer.request("hello", protocol=1, client=name))
            for name in ('"\n\x7f', '"\\é'):
                peer.error("index.describe", index=name)
        daemon.stop()
        lines = daemon.log().splitlines()
        self.assertGreater(len(lines), 2)
        for line in lines:
            self.assertIsInstance(json.loads(line), dict)


class LocaleTest(hspz_test.TestCase):
    def test_e11_a_comma_locale_changes_nothing(self):
        # A locale that writes 0,5 for a half, made here when the machine has none.
        env = child_env(LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8")
        localedef = shutil.which("localedef")
        if localedef and subprocess.run([localedef, "-i", "de_DE", "-f", "UTF-8",
                                         self.path("de_DE.UTF-8")], capture_output=True,
                                        check=False).returncode == 0:
            env["LOCPATH"] = self.folder
        if hspz_test.SANITIZED:
            # What the C library cuts LOCPATH into, when OpenSSL asks it for a locale, it keeps.
            env["LSAN_OPTIONS"] = "print_suppressions=0:suppressions=" + self.file(
                "lsan", "leak:argz_add_sep\n")
        index = self.index([("r", "ACGTTGCAACGGTCATTGCAGTAACGGGTTTACCCATG")])
        daemon = self.daemon("--log-format", "json", indexes={"ref": index}, env=env)
        with daemon.peer() as peer:
            peer.call("stats")
        for command in ("stats", "health"):
            said = daemon.client(command, env=env, check=0).stdout
            self.assertNotRegex(said, r"\d,\d")
        query = self.file("q.fa", ">q\nACGTTGCAACGGTCATTGCAGTAACGGGTTTACCCATG\n")
        said = daemon.client("--verbose", "discover", "ref", query, "--wait", "0.5", env=env)
        self.assertNotIn(",", said.stdout)
        self.assertGreater(said.stdout.count("\n"), 10)
        daemon.stop()
        for line in daemon.log().splitlines():
            json.loads(line)


class BuildTest(hspz_test.TestCase):
    def configure(self, name):
        """`meson setup` with every .pc file of the machine, but msgpack's under one name alone."""
        meson = hspz_test.tool("meson")
        path = subprocess.run([hspz_test.tool("pkg-config"), "--variable", "pc_path",
                               "pkg-config"], capture_output=True, text=True, check=True)
        folder = self.path("pc-" + name)
        os.mkdir(folder)
        source = None
        for top in reversed(path.stdout.strip().split(":")):
            for file in os.listdir(top) if os.path.isdir(top) else []:
                if file in ("msgpack.pc", "msgpack-c.pc"):
                    source = os.path.join(top, file)
                elif file.endswith(".pc") and not os.path.exists(os.path.join(folder, file)):
                    os.symlink(os.path.join(top, file), os.path.join(folder, file))
        self.assertIsNotNone(source, "no msgpack .pc file on this machine")
        with open(source, encoding="utf-8") as file:
            hspz_test.write(os.path.join(folder, name + ".pc"), file.read())
        build = self.path("build-" + name)
        done = subprocess.run([meson, "setup", build, hspz_test.SOURCE, "-Dcuda=disabled",
                               "-Dtests=disabled", "-Dbench=disabled"], capture_output=True,
                              text=True, env=child_env(PKG_CONFIG_LIBDIR=folder), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            return done.stdout, file.read()

    @unittest.skipIf(hspz_test.SANITIZED, "tells nothing new under a sanitizer")
    def test_e09_either_name_of_msgpack_will_do(self):
        for name in ("msgpack", "msgpack-c"):
            said, ninja = self.configure(name)
            self.assertRegex(said, r"Run-time dependency %s found: YES" % re.escape(name))
            self.assertRegex(ninja, r"msgpack-?c")
            self.assertNotIn("stdc++", ninja)


if __name__ == "__main__":
    hspz_test.main()
