# SPDX-License-Identifier: Apache-2.0
"""From what was measured to results.json, the report, the table and the exit status (on the host)."""
import json
import os

from report import page, runs as report_runs, table

from . import disturbance, evaluate, promises

# Beyond this share of the emulated CPUs a loader waits for one.
BUSY = 0.85
WORD = {True: "PASS", False: "FAIL", None: "UNDECIDED"}


def notes(raw):
    return (host_notes if raw["settings"].get("is_host") else guest_notes)(raw) + [
        ("Workers run on the CPUs of their XPU's node. " if raw["settings"]["is_bound"] else
         "Workers are not bound to CPUs, as frameworks do by default. ") +
        "Caches are dropped and the model's files proven absent before every run.",
        "The template of the recording run (memory-rich) serves all measured runs of both cases."]


def host_notes(raw):
    settings = raw["settings"]
    device = ("The accelerators' time per byte is slept by the loader."
              if settings["load_share"] else "No accelerator's time is modelled: a load ends with the copy.")
    disk = ("The disk is an image behind nbdkit's rate and delay filters, nbdfuse and a loop device: on a "
            f"small machine it takes a third of the CPUs at {settings['mbps']} MB/s."
            if settings["mbps"] else "The disk is the one that the model lies on, as fast as it is.")
    return [
        "This machine itself, no module: MAIO sees through the observer (BPF on the host's own kernel). "
        "What the module adds (evicting what several workers map, waiting for nothing) is shown by "
        "tools/demo --vm, in an emulated machine.",
        disk, device,
        "The clock starts at exec; MAIO's includes telling the daemon that a service starts "
        f"({raw.get('median_hook_s', 0):.2f} s); the row that starts 3 s earlier does not include "
        "those 3 s, and has a bound of its own. PreCache's start-up includes its caching (8 processes "
        "reading at once).",
        "All processes of a service are charged to one control group. 'max' counts how often its limit "
        "was hit."]


def guest_notes(raw):
    return [
        "An emulated machine (QEMU without KVM) whose CPU is some 25 times slower than a real one; the "
        "disk is slowed down alike (bandwidth and latency), so that ratios stay. Absolute seconds "
        "mean nothing.",
        "The two accelerators are stand-ins: the time a device needs per byte is slept by the loader. "
        "The gain from NUMA locality itself does not show here; where pages lie is counted.",
        "The clock starts at exec; MAIO's includes telling the daemon that a service starts "
        f"({raw.get('median_hook_s', 0):.2f} s); the row that starts 3 s earlier does not include "
        "those 3 s. PreCache's start-up includes its caching (8 processes reading at once).",
        "Native rows use the ext4 file system directly; EagerLoad and MAIO go through the ppc mount. "
        "All processes of a service, and the cache loaded for it, are charged to one control group."]


def warnings(raw):
    """What makes times of this very run doubtful."""
    return (host_warnings if raw["settings"].get("is_host") else guest_warnings)(raw)


def host_warnings(raw):
    found = list(filter(None, [disk_doubt(raw)]))
    runs = [run for run in raw["runs"] if disturbance.is_disturbed(run)]
    if runs:
        worst = max(runs, key=disturbance.share)
        found.append(
            f"{len(runs)} of {len(raw['runs'])} runs were disturbed: others took up to "
            f"{disturbance.share(worst):.0%} of the CPUs ({worst['disturbance']['stolen']:.0%} of it by the "
            f"hypervisor; {worst['memory']}: {worst['name']}). Times of these runs are longer than on an "
            "idle machine.")
    for void in raw["voids"]:
        found.append(f"One run of {void['system']} ({void['memory']}) was void and made again: "
                     f"{void['problems'][0]}")
    return found


def disk_doubt(raw, memory=None):
    """Of a disk that was not the same in all its measurements; memory: in those before and after the
    runs of this case."""
    wanted = raw["settings"]["mbps"]
    measured = list(raw["disk_bytes_per_s"].items())
    if memory:
        start = next((i for i, (when, _) in enumerate(measured) if when == memory), len(measured))
        measured = measured[start:start + 2]
    return disturbance.disk_doubt([rate for _, rate in measured], wanted and wanted * 1e6)


def guest_warnings(raw):
    found = []
    taken = disturbance.share(raw)
    if taken > disturbance.TOLERATED:
        found.append(f"Others took {taken:.0%} of the host's CPUs: times are longer than on an idle host, "
                     "and pages may lie on the other node.")
    if raw["measured"]["disk_measured"] < 0.9e6 * raw["settings"]["mbps"]:
        found.append(
            "The host was busy: the disk gave "
            f"{raw['measured']['disk_measured'] / 1e6:.0f} MB/s when measured, less than it was set to; "
            "times are longer than on an idle host.")
    busy = max((run["cpu_busy_s"] * 1e9 / (run["end_ns"] - run["zero_ns"]) / raw["cpus"]
                for run in raw["runs"] if run["system"] == "maio"), default=0)
    if busy > BUSY:
        found.append(
            f"The emulated CPUs were {busy:.0%} busy in a run of MAIO: this host emulates too slowly for "
            f"a disk of {raw['settings']['mbps']} MB/s, and readers overtake a loader that waits for a "
            "CPU. Slow the disk down as well, say by a third: --disk 150,5300.")
    return found


def machine_fact(raw):
    if raw["settings"].get("is_host"):
        nodes = raw["nodes"]
        return f"{raw['cpus']} CPUs, {nodes} NUMA node{'s' if nodes > 1 else ''}, Linux {raw['kernel']}"
    return f"{raw['cpus']} CPUs, 2 NUMA nodes, Linux {raw['kernel']}, QEMU/TCG"


def disk_fact(raw, options):
    measured = raw.get("disk_bytes_per_s") or {"": raw["measured"]["disk_measured"]}
    rates = " / ".join(f"{rate / 1e6:.0f}" for rate in measured.values())
    name = raw["settings"].get("file_system", "ext4")
    if not raw["settings"]["mbps"]:
        return (f"the model's own, read-ahead {raw['settings']['read_ahead_kb']} KiB as found; "
                f"measured {rates} MB/s")
    return (f"{name}, throttled to {raw['settings']['mbps']} MB/s and {options.lat_us} us per request, "
            f"read-ahead 128 KiB; measured {rates} MB/s")


def facts(raw, description, options, seconds):
    measured = raw["measured"]
    device = (f"device {measured['device_mbps']:.0f} MB/s per worker" if measured["device_mbps"]
              else "no device")
    return {
        "model": f"{description}: {measured['model_bytes'] / 1e6:.0f} MB, "
                 f"{measured['cached']['report']['tensors']} tensors",
        "service": f"{options.workers} workers, tensor parallel, " +
                   ("read()" if options.mode != "mmap" else "private mapping of each shard" +
                    (", all kept to the end" if options.keep_mapped else "")),
        "machine": machine_fact(raw), "disk": disk_fact(raw, options),
        "pure disk time": f"{measured['pure_disk_s']:.1f} s",
        "init": f"{measured['cached_init_s']:.1f} s, reads only small files",
        "fully cached load": f"{measured['cached_load_s']:.1f} s ({device})",
        "bound, memory-rich": raw["bounds"]["rich"]["why"],
        "bound, with the limit": raw["bounds"]["limit"]["why"],
        "memory limit": f"{raw['limit_bytes'] / 1e6:.0f} MB = loader's own "
                        f"{measured['loader_bytes'] / 1e6:.0f} MB + 45% of the model + "
                        f"{raw['settings']['margin_bytes'] / 1e6:.0f} MB margin",
        "whole demo": f"{seconds:.0f} s"}


def judged(raw, rows, is_partial):
    """The claims, with what speaks against judging times."""
    settings = raw["settings"]
    if not settings.get("is_host"):
        doubt = warnings(raw)
        doubts = {memory: doubt[0].partition(":")[0].lower() for memory in promises.WHERE if doubt}
        return promises.claims(rows, raw["errors"], is_partial, promises.GUEST, doubts)
    taken = disturbance.share(raw["measured"]["cached"])
    bound_doubt = (f"others took {taken:.0%} of the CPUs from the cached load"
                   if taken > disturbance.TOLERATED else "")
    return promises.claims(rows, raw["errors"], is_partial,
                           promises.of_host(settings),
                           {memory: disk_doubt(raw, memory) for memory in promises.WHERE}, bound_doubt)


def assemble(raw, description, options, seconds):
    """The results file's contents (format: bench/README.md)."""
    raw["bounds"] = evaluate.bounds(raw)
    rows = evaluate.rows(raw, options.out)
    return {"version": 1, "title": "A model loaded natively and through PPC",
            "lead": evaluate.headline(rows), "settings": facts(raw, description, options, seconds),
            "measured": {"disk_mbps": raw["measured"]["disk_bytes_per_s"] / 1e6,
                         "limit_bytes": raw["limit_bytes"] - raw["measured"]["loader_bytes"],
                         **{key: value for key, value in raw["measured"].items() if key != "cached"}},
            "bounds": raw["bounds"],
            "case_names": {"limit": "the loader's own memory + 45% of the model"},
            "group_names": {"-1": "shared by the workers",
                            **{str(index): f"worker {index}" for index in range(options.workers)}},
            "residency_of": {"rich": ["maio"], "limit": ["native", "eager", "maio"]},
            "runs": raw["runs"], "rows": rows, "errors": raw["errors"],
            "claims": judged(raw, rows, options.is_partial),
            "notes": notes(raw) + warnings(raw), "warnings": warnings(raw)}


def finish(results, out):
    """Writes results and report, prints table and claims; the exit status."""
    path = os.path.join(out, "results.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    view = page.Page(report_runs.Results(path))
    html = os.path.join(out, "report.html")
    with open(html, "w", encoding="utf-8") as file:
        file.write(view.render())
    print(table.plain(view.rows, view.cases))
    failed = [claim for claim in results["claims"] if claim["ok"] is False]
    for claim in results["claims"]:
        print(f"{WORD[claim['ok']]} {claim['text']}: {claim['value']}")
    for warning in results["warnings"]:
        print(f"note: {warning}")
    undecided = sum(claim["ok"] is None for claim in results["claims"])
    print(f"{sum(claim['ok'] is True for claim in results['claims'])} of {len(results['claims'])} claims "
          "hold" + (f", {undecided} are undecided: this run was disturbed" if undecided else ""))
    print(f"results: {path}\nreport:  {html}")
    return 1 if failed else 0
