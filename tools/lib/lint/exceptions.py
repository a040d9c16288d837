# SPDX-License-Identifier: Apache-2.0
"""Findings that are allowed to stay: lines `CHECK | REGULAR EXPRESSION | REASON`."""
import re


class Exceptions:
    """The list, and which of its lines were needed."""

    def __init__(self, path):
        self._rows = []
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                line = line.strip()
                if not line or line.startswith("#"):
                    continue
                # The reason comes last; the expression may hold a bar itself.
                check, rest = line.split(" | ", 1)
                pattern, _, reason = rest.rpartition(" | ")
                if not pattern or not reason:
                    raise SystemExit(f"lint: {path}:{number}: CHECK | EXPRESSION | REASON")
                self._rows.append([check, re.compile(pattern), False, line])

    def filter(self, check, findings):
        kept = []
        for finding in findings:
            hits = [row for row in self._rows if row[0] == check and row[1].search(finding)]
            for row in hits:
                row[2] = True
            if not hits:
                kept.append(finding)
        return kept

    def unused(self):
        return [f"not needed any more: {row[3]}" for row in self._rows if not row[2]]
