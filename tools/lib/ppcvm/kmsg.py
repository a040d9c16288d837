# SPDX-License-Identifier: Apache-2.0
"""Reads a guest's kernel log and finds the reports that must fail a run."""
import re

COMPLAINTS = re.compile(
    r"WARNING:|\bBUG[: ]|kernel BUG at|\bOops\b|general protection fault|Kernel panic|"
    r"INFO: task .* blocked for more than|INFO: (rcu|possible|trying|lockdep)|detected stalls? on|"
    r"self-detected stall|suspicious RCU usage|UBSAN:|KASAN:|KFENCE:|KCSAN:|"
    r"kmemleak: .*new suspected|refcount_t:|list_(add|del) corruption|ODEBUG:|Bad page |"
    r"Bad rss-counter|VFS: Busy inodes|Objects remaining in|unreferenced object|"
    r"DEBUG_LOCKS_WARN_ON|sleeping function called from invalid context|scheduling while atomic|"
    r"cannot create duplicate filename|segfault at .* in ppc|kobject_add_internal failed")
# Said by kernels on some machines, about the machine.
HARMLESS = re.compile(r"Spectre V2 : WARNING|TSC_DEADLINE|firmware bug|Unprivileged eBPF", re.I)
BEGIN, END = "ppc-vm: expect-begin", "ppc-vm: expect-end"


def message(line):
    """The text of one record of /dev/kmsg: 'priority,sequence,time,flags;text'."""
    head, separator, text = line.partition(";")
    return text if separator and re.match(r"\d+,\d+,\d+,", head) else line


class Log:
    """Collects the stream of /dev/kmsg."""

    def __init__(self):
        self.lines = []
        self._rest = b""

    def feed(self, data):
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines += [message(line.decode(errors="replace")) for line in whole if not line.startswith(b" ")]

    def complaints(self):
        return complaints(self.lines)

    def story(self, complaint, before=2, after=90):
        """The lines around the first such line, behind the test that ran then."""
        at = self.lines.index(complaint)
        tests = [line for line in self.lines[:at] if line.startswith("ppc-test: ")]
        return tests[-1:] + self.lines[max(0, at - before):at + after]


def complaints(lines):
    """The offending lines that no bracket expects: all inside one, or those that its pattern finds."""
    found, expected = [], []
    for line in lines:
        if BEGIN in line:
            expected.append(line.partition(BEGIN)[2].strip())
        elif END in line:
            del expected[-1:]
        elif (COMPLAINTS.search(line) and not HARMLESS.search(line)
              and not any(re.search(pattern, line) for pattern in expected)):
            found.append(line)
    return found
