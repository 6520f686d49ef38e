"""The Debian packages: built from the tree, looked at by lintian, installed in a bare bookworm, where the
service's command does a job as its user; then purged. Needs root and a mirror; takes minutes, so it is
of suite `long`.

HSPZ_DEBS: a folder of packages that were built before; HSPZ_CHROOT: a bookworm to copy, as debootstrap
leaves it. Either saves its part of the time."""

import glob
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import hspz_test
from hspz_test import SOURCE, bases, poll

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = ("hspzd", "hspz-client", "libhspz0", "libhspz-dev", "python3-hspz")


def run(*command, check=True, **more):
    more.setdefault("env", dict(os.environ, PATH=PATH, LC_ALL="C.UTF-8",
                                DEBIAN_FRONTEND="noninteractive"))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, stdin=subprocess.DEVNULL, **more)
    if check and done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s" % (" ".join(command), done.returncode,
                                                  done.stdout[-3000:]))
    return done.stdout


def need(*programs):
    for program in programs:
        if shutil.which(program, path=PATH) is None:
            raise unittest.SkipTest("no %s" % program)


def mirror():
    """The first one that apt is set up with here."""
    text = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
               "Codename: bookworm")
    uris = [line for line in text.splitlines() if line]
    if not uris:
        raise unittest.SkipTest("apt has no mirror of bookworm")
    return uris[0].rstrip("/")


class DebianTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        need("dpkg-buildpackage", "dh_installsysusers", "pybuild", "debootstrap", "lintian")
        if os.geteuid() != 0:
            raise unittest.SkipTest("not root")
        cls.top = tempfile.mkdtemp(prefix="hspz-debian-")
        cls.addClassCleanup(shutil.rmtree, cls.top, True)
        cls.debs = os.environ.get("HSPZ_DEBS") or cls.build()
        cls.root = os.path.join(cls.top, "bookworm")
        if os.environ.get("HSPZ_CHROOT"):
            run("cp", "-a", os.environ["HSPZ_CHROOT"], cls.root)
        else:
            run("debootstrap", "--variant=minbase", "bookworm", cls.root, mirror())
        # As containers have it: systemd-tmpfiles looks there.
        run("mount", "-t", "proc", "proc", os.path.join(cls.root, "proc"))
        cls.addClassCleanup(run, "umount", os.path.join(cls.root, "proc"))
        for name in ("etc/resolv.conf", "etc/hosts"):
            shutil.copy("/" + name, os.path.join(cls.root, name))
        for name in PACKAGES:
            shutil.copy(cls.deb(name), cls.root)

    @classmethod
    def build(cls):
        """In a copy of what git would take."""
        tree = os.path.join(cls.top, "build", "hspz")
        listing = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                                  "--exclude-standard"], capture_output=True, check=True).stdout
        for name in listing.decode().split("\0"):
            source = os.path.join(SOURCE, name)
            if name and os.path.isfile(source):
                os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
                shutil.copy(source, os.path.join(tree, name))
        run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=tree,
            env=dict(os.environ, PATH=PATH, DEB_BUILD_OPTIONS="noddebs parallel=%d" % os.cpu_count()))
        return os.path.dirname(tree)

    @classmethod
    def deb(cls, name):
        found = glob.glob(os.path.join(cls.debs, name + "_*.deb"))
        assert len(found) == 1, (name, found)
        return found[0]

    def inside(self, *command, **more):
        """Runs in the bookworm."""
        return run("chroot", self.root, *command, **more)

    def real(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def test_lintian_finds_no_errors(self):
        changes = glob.glob(os.path.join(self.debs, "*.changes"))
        self.assertEqual(len(changes), 1)
        text = run("lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0",
                   changes[0])
        self.assertNotRegex(text, r"(?m)^E:", text)
        # It does look: what is wrong on purpose is found.
        bad = os.path.join(self.top, "bad", "DEBIAN")
        os.makedirs(bad)
        hspz_test.write(os.path.join(bad, "control"), "Package: bad\nVersion: 1\nArchitecture: all\n"
                        "Maintainer: nobody\nDescription: bad\n")
        run("dpkg-deb", "--build", os.path.dirname(bad), os.path.join(self.top, "bad_1_all.deb"))
        text = run("lintian", "--allow-root", "--fail-on", "none",
                   os.path.join(self.top, "bad_1_all.deb"))
        self.assertRegex(text, r"(?m)^E:")

    def test_installed_it_does_a_job_and_purged_it_is_gone(self):
        before = self.files()
        names = [os.path.join("/", os.path.basename(self.deb(name))) for name in PACKAGES]
        self.inside("apt-get", "-q", "-y", "--no-install-recommends", "install", *names)
        self.assertEqual(self.inside("hspzd", "--version").split()[0], "hspzd")
        self.assertIn("hspz", self.inside("getent", "passwd", "hspz"))
        modes = {path: self.inside("stat", "-c", "%A %U:%G", path).strip()
                 for path in ("/etc/hspz", "/var/lib/hspz", "/run/hspz")}
        self.assertEqual(modes, {"/etc/hspz": "drwxr-x--- root:hspz",
                                 "/var/lib/hspz": "drwxr-x--- hspz:hspz",
                                 "/run/hspz": "drwxr-xr-x hspz:hspz"})
        for unit, target in (("hspzd.service", "multi-user.target"),
                             ("hspzd.socket", "sockets.target")):
            link = self.real("/etc/systemd/system/%s.wants/%s" % (target, unit))
            self.assertEqual(os.readlink(link), "/lib/systemd/system/" + unit)
        self.job_of_the_service()
        self.programs_of_others()
        shutil.copy(os.path.join(SOURCE, "debian", "tests", "job"), self.real("/job"))
        self.assertRegex(self.inside("/job"), r"(?m)^\d+ anchors$")
        os.unlink(self.real("/job"))
        self.inside("apt-get", "-q", "-y", "purge", *PACKAGES)
        self.inside("apt-get", "-q", "-y", "--purge", "autoremove")
        # The user stays, as users of services do.
        left = [path for path in self.files() - before if "hspz" in path]
        self.assertEqual(left, [])
        for path in ("/etc/passwd", "/etc/group"):
            with open(self.real(path), encoding="utf-8") as file:
                self.assertIn("hspz:", file.read())

    def files(self):
        found = set()
        for folder, folders, names in os.walk(self.root):
            if folder == self.root:
                folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
            for name in folders + names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if not path.startswith(("var/cache/", "var/log/")) and \
                        not name.endswith(".deb"):
                    found.add(path)
        return found

    def job_of_the_service(self):
        """Its command line as its user, told about readiness as by systemd: what is left of the unit
        without one."""
        with open(self.real("/lib/systemd/system/hspzd.service"), encoding="utf-8") as file:
            unit = file.read()
        command = shlex.split(re.search(r"^ExecStart=(.*)", unit, re.M).group(1))
        user = re.search(r"^User=(.*)", unit, re.M).group(1)
        self.assertEqual(command[:3], ["/usr/bin/hspzd", "--engine", "cpu"])
        rng = random.Random(3)
        ref = [("r", bases(rng, 20000))]
        query = [("q", ref[0][1][3000:6000] + bases(rng, 300))]
        for name, records in (("r", ref), ("q", query)):
            hspz_test.write(self.real("/tmp/%s.fa" % name), hspz_test.fasta(records))
        self.inside("hspz-client", "index", "build", "/tmp/r.fa", "-o", "/var/lib/hspz/ref.hspz")
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        notify.bind(self.real("/run/notify"))
        os.chmod(self.real("/run/notify"), 0o777)
        with open(self.real("/tmp/hspzd.log"), "wb") as log:
            service = subprocess.Popen(
                ["chroot", "--userspec=%s:%s" % (user, user), self.root, *command], stdout=log,
                stderr=log, stdin=subprocess.DEVNULL,
                env={"PATH": PATH, "NOTIFY_SOCKET": "/run/notify"})
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        notify.settimeout(60 * hspz_test.SLOWER)
        try:
            while b"READY=1" not in notify.recv(65536):
                pass
        except socket.timeout:
            with open(self.real("/tmp/hspzd.log"), encoding="utf-8") as log:
                self.fail(log.read())
        with open("/proc/%d/status" % service.pid, encoding="ascii") as file:
            uid = re.search(r"^Uid:\s+(\d+)", file.read(), re.M).group(1)
        self.assertEqual(self.inside("id", "-u", user).strip(), uid)
        self.assertNotEqual(uid, "0")
        # Root finds it where clients look, and the index in its folder; another user is not let in.
        self.inside("sh", "-c", "hspz-client discover ref /tmp/q.fa --format packed > /tmp/hits")
        with open(self.real("/tmp/hits"), "rb") as file:
            self.assert_same_anchors(file.read(), hspz_test.discover(ref, query))
        self.assertRegex(self.inside("hspz-client", "index", "list"), r"(?m)^ref\tready\t")
        told = run("chroot", "--userspec=nobody:nogroup", self.root, "hspz-client", "health",
                   check=False)
        self.assertRegex(told, r"hspz-client: ")
        self.assertNotIn("ready", told)
        service.send_signal(signal.SIGTERM)
        self.assertTrue(poll(lambda: service.poll() is not None, 60))
        self.assertEqual(service.returncode, 0)
        for name in ("run/notify", "tmp/hits", "var/lib/hspz/ref.hspz", "tmp/hspzd.log"):
            os.unlink(self.real(name))

    def programs_of_others(self):
        """What libhspz-dev has is enough for the linker of this machine."""
        sysroot = dict(os.environ, PATH=PATH, PKG_CONFIG_SYSROOT_DIR=self.root,
                       PKG_CONFIG_LIBDIR=":".join(glob.glob(self.real("/usr/lib/*/pkgconfig"))))
        flags = run("pkg-config", "--cflags", "--libs", "hspz", env=sysroot).split()
        program = self.real("/tmp/consumer")
        run("cc", "-o", program, os.path.join(SOURCE, "tests", "client", "consumer.c"), *flags)
        told = self.inside("ldd", "/tmp/consumer")
        self.assertRegex(told, r"libhspz\.so\.0 => /")
        os.unlink(program)


if __name__ == "__main__":
    hspz_test.main()
