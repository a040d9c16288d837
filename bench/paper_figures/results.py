# SPDX-License-Identifier: Apache-2.0
"""The kept starts by figure: values over the rounds, where and when they were measured."""
import collections
import statistics

from . import catalog

Spread = collections.namedtuple("Spread", "median low high count")


def spread(values):
    values = [value for value in values if value is not None]
    return Spread(statistics.median(values), min(values), max(values), len(values)) if values else None


class Results:
    """All lines of a figure from the machine and commit of its last one: others are not compared with them.  A start that
    was measured again counts as its least disturbed time."""

    def __init__(self, lines):
        self.of = {}
        self.origins = {}
        for line in lines:
            self.origins[line["figure"]] = (line["machine"], line["commit"], line["found"].get("date"))
        for line in lines:
            if (line["machine"], line["commit"]) == self.origins[line["figure"]][:2]:
                key, found = tuple(line[name] for name in catalog.Start._fields), line["found"]
                if key not in self.of or catalog.taken(found) <= catalog.taken(self.of[key]):
                    self.of[key] = found

    def get(self, figure, model, system, memory, number=0):
        return self.of.get((figure, model, system, memory, number))

    def rounds(self, figure, model, system, memory):
        """What was found, in the order of the rounds."""
        keys = sorted((key for key in self.of if key[:4] == (figure, model, system, memory)), key=lambda key: key[4])
        return [self.of[key] for key in keys]

    def spread(self, figure, model, system, memory, value):
        """Over the rounds that other processes did not disturb, if there are any."""
        every = self.rounds(figure, model, system, memory)
        calm = [one for one in every if not catalog.is_disturbed(one)]
        return spread(value(one) for one in calm or every)

    def most_rounds(self, figure):
        return max((key[4] + 1 for key in self.of if key[0] == figure), default=0)

    def origin(self, figure):
        """How many rounds, on which machine, of which commit, when; how many starts do not count fully."""
        machine, commit, date = self.origins[figure]
        count = self.most_rounds(figure)
        disturbed = sum(catalog.is_disturbed(found) for key, found in self.of.items() if key[0] == figure)
        return (f"{count} round{'s' if count > 1 else ''}; {machine}; commit {commit}, {date}" +
                (f"; disturbed by other processes: {disturbed} of the starts" if disturbed else ""))

    def has(self, figure):
        return figure in self.origins
