"""The manual pages are sound, say what --help and the header say, and their examples hold."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["HSPZ_SOURCE"]
BUILD = os.environ["HSPZ_BUILD"]
CLIENT = os.path.join(BUILD, "client", "hspz-client")
HSPZD = os.path.join(BUILD, "daemon", "hspzd")
PAGES = ("client/hspz-client.1", "client/libhspz.3", "daemon/hspzd.8", "daemon/hspzd.conf.5")
REQUIRED = os.environ.get("HSPZ_REQUIRE", "").split(",")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def options(text):
    """Options that stand in a text as --name, those that are an example's, or another's, apart."""
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def flags(page):
    """Options of a page: of .Fl."""
    found = set()
    for line in page.split("\n"):
        if line.startswith("."):
            found |= {"-" + f.replace("\\", "") for f in re.findall(r"Fl (\\-[a-z][\w\\-]*)", line)}
    return found


def commands():
    """Every command's name and help."""
    for line in said(CLIENT, "--help").split("Options")[0].split("\n"):
        if line.startswith("  "):
            name = line[2:17].strip()
            text = said(CLIENT, *name.split(), "--help")
            if "COMMAND ..." not in text:
                yield name, text
                continue
            for inner in text.split("\n"):
                if inner.startswith("  "):
                    whole = name + " " + inner.split()[0]
                    yield whole, said(CLIENT, *whole.split(), "--help")


class ManualTest(unittest.TestCase):
    def tool(self, name):
        path = shutil.which(name)
        if path is None:
            self.assertNotIn("shared", REQUIRED, "%s is absent" % name)
            self.skipTest("no " + name)
        return path

    def test_mandoc_and_groff_have_nothing_to_say(self):
        mandoc, groff = self.tool("mandoc"), self.tool("groff")
        for page in PAGES:
            path = os.path.join(SOURCE, page)
            done = subprocess.run([mandoc, "-Tlint", path], capture_output=True, text=True,
                                  check=False)
            # Our pages name each other, and may not be installed.
            lines = [line for line in (done.stdout + done.stderr).splitlines()
                     if "referenced manual not found" not in line]
            self.assertEqual(lines, [])
            done = subprocess.run([groff, "-mdoc", "-Tutf8", "-ww", "-z", path],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            shown = subprocess.run([mandoc, "-Tascii", path], capture_output=True, text=True,
                                   check=False).stdout
            self.assertGreater(len(shown.splitlines()), 40)

    def test_client_page_has_the_options_of_each_help(self):
        page = read("client/hspz-client.1")
        sections = {}
        for part in page.split("\n.Ss ")[1:]:
            title, _, text = part.partition("\n")
            for name in title.split(", "):
                sections[name] = text.split("\n.Sh ")[0]
        seen = 0
        for name, text in commands():
            with self.subTest(name):
                self.assertIn(name, sections)
                usage = text.split("Example:")[0].replace("LASTZ's --segments", "")
                seen += 1
                self.assertEqual(options(usage), flags(sections.pop(name)))
        self.assertGreater(seen, 25)
        self.assertEqual(sections, {})
        common = said(CLIENT, "--help").split("Options of every command:")[1].split("Example")[0]
        section = page.split(".Sh OPTIONS")[1].split(".Sh COMMANDS")[0]
        self.assertEqual(options(common), flags(section))
        self.assertGreater(len(flags(section)), 8)

    def test_daemon_pages_have_the_options_of_help(self):
        text = said(HSPZD, "--help", "all")
        names = set(re.findall(r"^  (--[a-z][\w-]*)", text, re.M)) | {"--version"}
        page = read("daemon/hspzd.8").split(".Sh OPTIONS")[1].split(".Sh SIGNALS")[0]
        self.assertEqual(names - {"--tenants", "--groups"}, flags(page) - {"--option"})
        self.assertGreater(len(names), 40)
        keys = {name[2:].replace("-", "_") for name in names} - {
            "help", "version", "config", "check_config", "die_with_parent"}
        conf = read("daemon/hspzd.conf.5")
        section = conf.split(".Sh KEYS")[1].split(".Sh GROUPS")[0]
        listed = set(re.findall(r"^\.It Cm (\w+)$", section, re.M))
        self.assertEqual((keys - {"index"}) | {"indexes"}, listed)
        for key, here, after in (("groups", "GROUPS", "TENANTS"), ("tenants", "TENANTS", "EXAMPLES")):
            refused = self.check_config({key: [{"bogus": 1}]})
            known = re.search(r"\(([a-z0-9_, ]+)\)", refused.stderr).group(1)
            section = conf.split(".Sh " + here)[1].split(".Sh " + after)[0]
            listed = set(re.findall(r"^\.It Cm ([\w ,]+)$", section, re.M))
            self.assertEqual(set(known.split(", ")), {k for l in listed for k in l.split(" , ")})

    def check_config(self, config):
        with tempfile.TemporaryDirectory(prefix="hspz-") as folder:
            path = os.path.join(folder, "hspzd.json")
            if "index_dir" in config:
                config["index_dir"] = folder
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            return subprocess.run([HSPZD, "--socket", os.path.join(folder, "s"), "--config", path,
                                   "--check-config"], capture_output=True, text=True, check=False)

    def test_configuration_of_the_page_is_one(self):
        conf = read("daemon/hspzd.conf.5")
        example = conf.split(".Sh EXAMPLES")[1].split(".Bd -literal -offset indent\n")[1]
        config = json.loads(example.split("\n.Ed")[0])
        done = self.check_config(config)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_library_page_has_the_functions_of_the_header(self):
        page, header = read("client/libhspz.3"), read("client/hspz.h")
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        functions = set(re.findall(r"\b(hspz_\w+)\s*\(", header)) - {"hspz_part_fn"}
        functions -= set(re.findall(r"\(\*(hspz_\w+)\)", header))
        synopsis = page.split(".Sh SYNOPSIS")[1].split(".Sh DESCRIPTION")[0]
        self.assertEqual(functions, set(re.findall(r"^\.Fn (hspz_\w+)", synopsis, re.M)))
        self.assertGreater(len(functions), 25)
        statuses = set(re.findall(r"\b(HSPZ_E_\w+)", page))
        self.assertLessEqual(statuses, set(re.findall(r"\b(HSPZ_E_\w+)", read("protocol/status.h"))))

    def test_program_of_the_library_page_compiles(self):
        compiler = self.tool("cc")
        page = read("client/libhspz.3").split(".Sh EXAMPLES")[1]
        program = page.split(".Bd -literal\n")[1].split("\n.Ed")[0].replace("\\e", "\\")
        with tempfile.TemporaryDirectory(prefix="hspz-") as folder:
            os.mkdir(os.path.join(folder, "hspz"))
            os.symlink(os.path.join(SOURCE, "client", "hspz.h"),
                       os.path.join(folder, "hspz", "hspz.h"))
            done = subprocess.run(
                [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", folder,
                 "-I", SOURCE, "-x", "c", "-"], input=program, capture_output=True, text=True,
                check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
