"""The end of tests/run.sh: a test that failed is run once more, alone, and all are counted.

    tests/verdict.py [FOLDER SETUP STATUS]...       a build folder, its test setup, what `meson test` gave

One that then passes is named as unsteady and fails nothing: what a busy machine does to a test is no fault of
the program. A crash, a broken promise and a sanitizer's report are, however seldom, and are not tried again."""

import glob
import json
import os
import re
import subprocess
import sys

KINDS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
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


def main():
    counts = dict.fromkeys(("passed", "failed", "skipped", "unsteady"), 0)
    failed, lines, sound = [], [], True
    for folder, setup, status in zip(*[iter(sys.argv[1:])] * 3):
        entries = results(folder, "testlog")
        for entry in entries:
            if kind_of(entry) == "failed":
                failed.append((folder, setup, entry))
            else:
                counts[kind_of(entry)] += 1
        # It failed, and not over a test: nothing was run, or it broke off.
        sound &= status == "0" or any(kind_of(entry) == "failed" for entry in entries)
    for folder, setup, entry in failed:
        # Meson puts the suites first: "hspz:unit / name".
        name = entry["name"].split(" / ", 1)[-1]
        where = "%s (%s)" % (name, folder)
        fault = fault_of(entry)
        if fault is None and len(failed) <= AGAIN_LIMIT:
            print("once more, alone: " + where, flush=True)
            if passes_again(folder, setup, name):
                counts["unsteady"] += 1
                lines.append("unsteady: " + where)
                continue
        counts["failed"] += 1
        lines.append("failed: " + where + (": " + fault if fault else ""))
    print("\n".join(lines + ["%(passed)d passed, %(failed)d failed, %(skipped)d skipped, %(unsteady)d unsteady"
                             % counts]))
    return 0 if sound and not counts["failed"] and counts["passed"] else 1


sys.exit(main())
