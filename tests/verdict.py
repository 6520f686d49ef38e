"""The end of tests/run.sh: a test that failed is run once more, alone, and all are counted.

    tests/verdict.py [FOLDER SETUP STATUS]...       a build folder, its test setup, what `meson test` gave

One that then passes is named as unsteady and fails nothing: what a busy machine does to a test is no fault of
the program. A crash, a broken promise and a sanitizer's report are, however seldom, and are not tried again.

Setup `rest` leaves to setup `address` what a sanitizer does not change (support/rest.py); each build's counts say
so, and what the other build did not run is a failure."""

import glob
import json
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from rest import MARK  # noqa: E402 pylint: disable=wrong-import-position

KINDS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
COUNTED = ("passed", "failed", "skipped", "unsteady")
LEFT = re.compile("^" + re.escape(MARK) + "(.*)", re.MULTILINE)
# More failures than this are no bad luck.
AGAIN_LIMIT = 20
# A sanitizer's warning of memory that a test meant to be refused is no report.
FAULT = re.compile(r"^(?!.*WARNING: \w+Sanitizer failed to allocate).*Sanitizer|runtime error:|broken promise:|"
                   r"ended with -(?:4|6|7|8|11)\b", re.MULTILINE)
# By a signal that says a program is wrong, as Python and as a shell tell it.
CRASHES = {sign for n in (4, 6, 7, 8, 11) for sign in (-n, 128 + n)}


def kind_of(entry):
    return KINDS.get(entry["result"], "failed")


def fault_of(entry):
    """Why a failed test is not tried again; None when it may have been bad luck."""
    if entry.get("returncode") in CRASHES:
        return "it crashed"
    found = FAULT.search((entry.get("stdout") or "") + "\n" + (entry.get("stderr") or ""))
    return "its output says '%s'" % found.group(0).strip() if found else None


def results(folder, base):
    entries = []
    for path in sorted(glob.glob(os.path.join(folder, "meson-logs", base + "*.json"))):
        with open(path, encoding="utf-8") as log:
            entries += [json.loads(line) for line in log]
    return entries


def passes_again(folder, setup, name):
    """Runs the tests of that name by themselves; their log goes beside the first one."""
    for old in glob.glob(os.path.join(folder, "meson-logs", "again*")):
        os.remove(old)
    # As a pattern, a name's brackets would mean something else.
    status = subprocess.run(
        ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--num-processes", "1",
         "--logbase", "again", "--setup", setup, re.sub(r"([*?\[])", r"[\1]", name)],
        check=False).returncode
    kinds = [kind_of(entry) for entry in results(folder, "again")]
    return status == 0 and "passed" in kinds and "failed" not in kinds


def name_of(entry):
    """Without the suites, which Meson puts first: "hspz:unit / name"."""
    return entry["name"].split(" / ", 1)[-1]


def left_of(entry):
    """What a test says it leaves to the build with a sanitizer."""
    found = LEFT.search(entry.get("stdout") or "")
    return found.group(1).split() if found else []


def tell_left(runs):
    """Says what was left by one build to another; returns the names of tests that no other build has run."""
    ran = {name_of(e) for _, setup, entries in runs if setup == "address" for e in entries}
    lost = []
    for folder, setup, entries in runs:
        left = {name_of(e): left_of(e) for e in entries if left_of(e)}
        if left:
            print("%s (%s) leaves to the address sanitizer's build, tests of each: %s" % (
                folder, setup, ", ".join("%s %d" % (n, len(t)) for n, t in sorted(left.items()))))
            lost += sorted(set(left) - ran)
    return lost


def main():
    failed, lines, sound, runs, table = [], [], True, [], {}
    for folder, setup, status in zip(*[iter(sys.argv[1:])] * 3):
        entries = results(folder, "testlog")
        runs.append((folder, setup, entries))
        table[folder] = dict.fromkeys(COUNTED + ("left",), 0)
        for entry in entries:
            if kind_of(entry) == "failed":
                failed.append((folder, setup, entry))
            elif kind_of(entry) == "skipped" and left_of(entry):
                table[folder]["left"] += 1
            else:
                table[folder][kind_of(entry)] += 1
        # It failed, and not over a test: nothing was run, or it broke off.
        sound &= status == "0" or any(kind_of(entry) == "failed" for entry in entries)
    for folder, setup, entry in failed:
        name = name_of(entry)
        where = "%s (%s)" % (name, folder)
        fault = fault_of(entry)
        if fault is None and len(failed) <= AGAIN_LIMIT:
            print("once more, alone: " + where, flush=True)
            if passes_again(folder, setup, name):
                table[folder]["unsteady"] += 1
                lines.append("unsteady: " + where)
                continue
        table[folder]["failed"] += 1
        lines.append("failed: " + where + (": " + fault if fault else ""))
    lost = tell_left(runs)
    lines += ["failed: %s: left to another build, and run by none" % name for name in lost]
    for folder, setup, _ in runs:
        print("%s (%s): " % (folder, setup) + ", ".join("%d %s" % (n, k) for k, n in table[folder].items()))
    counts = {kind: sum(row[kind] for row in table.values()) for kind in COUNTED}
    counts["failed"] += len(lost)
    print("\n".join(lines + ["%(passed)d passed, %(failed)d failed, %(skipped)d skipped, %(unsteady)d unsteady"
                             % counts]))
    return 0 if sound and not counts["failed"] and counts["passed"] else 1


sys.exit(main())
