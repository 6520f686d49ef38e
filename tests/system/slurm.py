"""A Slurm cluster of its own on this machine: munge, slurmctld and four slurmd, in one folder, at ports
and with a key of its own. It ends with the process that started it, jobs included."""

import atexit
import ctypes
import getpass
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time

from hspz_test import child_env, free_port, poll, tool

NODES = 4
CONFIGURATION = """
ClusterName=hspz-test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%(port)d
SlurmUser=%(user)s
SlurmdUser=%(user)s
AuthType=auth/munge
AuthInfo=socket=%(folder)s/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
GresTypes=gpu
ReturnToService=2
KillWait=%(kill_wait)d
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/%%n
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd-%%n.pid
SlurmctldLogFile=%(folder)s/slurmctld.log
SlurmdLogFile=%(folder)s/slurmd-%%n.log
SchedulerParameters=bf_interval=1,sched_min_interval=100000
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def _die_with_parent():
    """The kernel ends a daemon whose test is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    def __init__(self, kill_wait=60):
        self.processes = []
        self.has_devices = True
        self.tools = {name: tool(name) for name in
                      ("mungekey", "munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue")}
        ports = [free_port() for _ in range(NODES + 1)]
        self.folder = tempfile.mkdtemp(prefix="hspz-slurm-")
        os.chmod(self.folder, 0o755)
        self.env = child_env(SLURM_CONF=self.path("slurm.conf"), TMPDIR=self.path("tmp"))
        # Whoever ends us, what was started here ends too.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        atexit.register(self.stop)
        for name in ("state", "tmp"):
            os.mkdir(self.path(name))
        self.configure(ports, kill_wait)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def configure(self, ports, kill_wait):
        with open(self.path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION % {"port": ports[0], "user": getpass.getuser(),
                                        "folder": self.folder, "kill_wait": kill_wait})
            for i in range(NODES):
                file.write("NodeName=n%d NodeHostname=localhost NodeAddr=127.0.0.1 Port=%d CPUs=16"
                           " RealMemory=4000 Gres=gpu:1\n" % (i + 1, ports[i + 1]))
        with open(self.path("gres.conf"), "w", encoding="utf-8") as file:
            for i in range(NODES):
                file.write("NodeName=n%d Name=gpu File=%s\n" % (i + 1, self.gpu(i)))

    def gpu(self, number):
        """What looks like a card to Slurm: with a device, its jobs get CUDA_VISIBLE_DEVICES."""
        path = self.path("nvidia%d" % number)
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            os.mknod(path)
            self.has_devices = False
        return path

    def path(self, name):
        return os.path.join(self.folder, name)

    def spawn(self, name, *arguments):
        with open(self.path(name + ".out"), "ab") as out:
            self.processes.append(subprocess.Popen(
                [self.tools[name], *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=self.env, preexec_fn=_die_with_parent))

    def start(self):
        subprocess.run([self.tools["mungekey"], "-c", "-k", self.path("munge.key")], check=True)
        self.spawn("munged", "--foreground", "--force", "--key-file=" + self.path("munge.key"),
                   "--socket=" + self.path("munge.socket"), "--pid-file=" + self.path("munged.pid"),
                   "--log-file=" + self.path("munged.log"), "--seed-file=" + self.path("munge.seed"))
        if not poll(lambda: os.path.exists(self.path("munge.socket")), 30):
            raise AssertionError("munged does not listen: " + self.read("munged.out"))
        self.spawn("slurmctld", "-D", "-c", "-f", self.path("slurm.conf"))
        for i in range(NODES):
            self.spawn("slurmd", "-D", "-N", "n%d" % (i + 1), "-f", self.path("slurm.conf"))
        if not poll(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=None).strip() ==
                    str(NODES), 60, every=0.2):
            raise AssertionError("the nodes are not idle: " + self.read("slurmctld.log")[-2000:])

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def run(self, *command, check=0, **more):
        """What a command of Slurm's, or of ours in its environment, prints."""
        done = subprocess.run(command, capture_output=True, text=True, env=self.env, check=False,
                              timeout=240, **more)
        if check is not None and done.returncode != check:
            raise AssertionError("%s: exit %d\n%s" % (" ".join(command), done.returncode,
                                                      done.stdout + done.stderr))
        return done.stdout

    def submit(self, *arguments):
        """A batch job's number."""
        return self.run("sbatch", "--parsable", "--time=30", *arguments).strip()

    def left(self, job):
        """Lines of squeue: a job's tasks that have not ended."""
        return self.run("squeue", "-h", "-r", "-j", job, "-o", "%i %T", check=None).split("\n")[:-1]

    def processes_of(self, word=b""):
        """Numbers of the processes that live in this cluster and have this in their command."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as file:
                    ours = self.folder.encode() in file.read()
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    ours = ours and word in file.read()
            except OSError:
                continue
            if ours and int(pid) != os.getpid():
                found.append(int(pid))
        return found

    def stop(self):
        """Whatever lives in this cluster, at once: nothing of it is wanted any more."""
        while self.processes_of():
            for pid in self.processes_of():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
