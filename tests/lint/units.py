"""The systemd units: what systemd itself says of them, and what a service on a GPU node must have."""

import os
import re
import shutil
import subprocess
import tempfile

import tree

BUILD = os.environ["HSPZ_BUILD"]
# (must be there, pattern, why)
SERVICE = [
    (True, r"^Type=notify$", "loading may take long: systemd is told when the service is ready"),
    (True, r"^After=.*\bnvidia-persistenced\.service", "the driver comes first"),
    (True, r"^Wants=.*\bnvidia-persistenced\.service", "the driver comes first"),
    (True, r"^ExecStartPre=-\+?.*nvidia-modprobe.* -u$|^ExecStartPre=\+-.*nvidia-modprobe.* -u$",
     "nodes appear only once root has used the card"),
    (False, r"^PrivateDevices=(yes|true|on|1)$", "hides the card"),
    (False, r"^(DevicePolicy|DeviceAllow)=", "a daemon-reload would take nodes away"),
    (False, r"^PrivateUsers=(yes|true|on|1)$", "hides who the peers are"),
    (False, r"^ProcSubset=pid$", "hides /proc/driver and the overflow ids"),
    (False, r"^MemoryDenyWriteExecute=(yes|true|on|1)$", "the card's libraries make code"),
    (True, r"^WatchdogSec=", "what hangs is started anew"),
    (True, r"^Restart=on-failure$", "a lost device ends the process"),
    (True, r"^RestartSec=([3-9]|[1-9][0-9]+)$", "quicker restarts reach the start limit"),
    (True, r"^RestartPreventExitStatus=2$", "wrong usage does not get better"),
    (True, r"^LimitMEMLOCK=", "pinned memory"),
    (True, r"^LimitNOFILE=", "connections"),
    (True, r"^ExecStart=.*--engine @engine@", "a machine that lost its card takes no other engine"),
    (True, r"^User=(?!root$)", "an ordinary user"),
]
SOCKET = [
    (True, r"^SocketMode=0600$", "without tenants nobody else is served"),
    (True, r"^ListenStream=/run/hspz/hspz\.sock$", "where clients look"),
]


def check_exposure(tool, path, problems):
    """Of 10, what systemd's own table makes of the service; it knows no user here but root."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^(User|Group)=root", r"\1=daemon", file.read(), flags=re.M)
    copy = path.replace("hspzd.service", "hspzd-exposure.service")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([tool, "security", "--offline=true", "--no-pager", copy],
                          capture_output=True, text=True, check=False)
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    if level is None:
        problems.append("systemd-analyze security: " + (done.stdout + done.stderr)[-300:])
    elif float(level.group(1)) >= 3.0:
        problems.append("systemd-analyze security: exposure %s" % level.group(1))


def verify(problems):
    """As systemd reads them, with names that exist here."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        service = tree.read("systemd/hspzd.service.in")
        service = service.replace("@bindir@/hspzd", os.path.join(BUILD, "daemon", "hspzd"))
        service = service.replace("@engine@", "cpu")
        service = re.sub(r"^(User|Group)=.*", r"\1=root", service, flags=re.M)
        socket = re.sub(r"^(SocketUser)=.*", r"\1=root", tree.read("systemd/hspzd.socket"),
                        flags=re.M)
        paths = []
        for name, text in (("hspzd.service", service), ("hspzd.socket", socket)):
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([tool, "verify", "--man=no", *paths], capture_output=True, text=True,
                              check=False)
        check_exposure(tool, paths[0], problems)
        said = [line for line in (done.stdout + done.stderr).splitlines()
                if "hspzd" in line and "nvidia-modprobe" not in line]
        problems += ["systemd-analyze: " + line for line in said]


problems = []
for path, rules in (("systemd/hspzd.service.in", SERVICE), ("systemd/hspzd.socket", SOCKET)):
    text = tree.read(path)
    for wanted, pattern, why in rules:
        if bool(re.search(pattern, text, re.M)) != wanted:
            problems.append("%s: %s %s (%s)" % (path, "no" if wanted else "has", pattern, why))
verify(problems)
tree.finish(problems, len(SERVICE) + len(SOCKET), "rules")
