# SPDX-License-Identifier: Apache-2.0
"""The Markdown on stdout, from the results as they are written to JSON."""
import statistics


def gb(value):
    return "-" if value is None else f"{value / 1e9:.2f}"


def _median(records, key):
    values = [record[key] for record in records if record.get(key) is not None]
    return statistics.median(values) if values else None


def _seconds(value):
    return "-" if value is None else f"{value:.2f}"


def _note(records):
    notes = []
    left = [r["cache"]["resident"] for r in records
            if not r["cache"]["is_cold"] and r["cache"]["how"] != "read before"]
    if left:
        unknown = any(share is None for share in left)
        notes.append("not proven cold" if unknown else f"{max(left):.0%} was in memory before")
    lost = sum((r.get("runner", {}).get("device") or {}).get("events_lost", 0) for r in records)
    if lost:
        notes.append(f"{lost} events lost")
    return "; ".join(notes)


def rows(data):
    head = ["framework", "processes", "system", "start-up, s", "before loading, s", "load, s",
            "GB to the device", "GB/s to the device", "GB from disk", "runs", "note"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for cell in data["cells"]:
        records = [r for r in data["runs"] if r["cell"] == cell["id"]]
        start = [cell["framework"], str(cell["processes"]), cell["name"]]
        if not records:
            lines.append("| " + " | ".join([*start, *["-"] * 6, "0", f"not run: {cell['why']}"]) + " |")
            continue
        lines.append("| " + " | ".join([
            *start, *(_seconds(_median(records, key)) for key in ("startup_s", "init_s", "load_s")),
            gb(_median(records, "bytes")), gb(_median(records, "device_bytes_per_s")),
            gb(_median(records, "disk_bytes")), str(len(records)), _note(records)]) + " |")
    return lines


def _binding_rows(data):
    seen = {}
    for record in data["runs"]:
        for one in record.get("bindings", []):
            seen[(record["framework"], record["processes"], one["rank"])] = one  # the newest
    if not seen:
        return []
    head = ["processes", "worker", "device", "torch's bus id", "explain-pid", "decided by", "NVML alone",
            "node (explain-pid / sysfs)", "agrees"]
    lines = ["", "Process -> GPU -> node:", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (_, processes, rank), one in sorted(seen.items()):
        agrees = {True: "yes", False: "**no**", None: "no GPU"}[one["agrees"]]
        lines.append("| " + " | ".join(str("-" if value is None else value) for value in (
            processes, rank, one["device"], one["torch_bus_id"], one["explain_bus_id"], one["decided_by"],
            one["nvml_bus_id"] or one["nvml_says"], f"{one['explain_node']} / {one['sysfs_node']}",
            agrees)) + " |")
    return lines


def head(data):
    machine, model, ppc = data["machine"], data["model"], data["ppc"]
    device = ", ".join(one["name"] for one in data["cuda"]) if data["device"] == "cuda" else "no GPU"
    speed = ", ".join(f"{value / 1e9:.2f}" if value else "unknown"
                      for value in data["disk"]["direct_bytes_per_s"])
    lines = [
        f"Device: {data['device']} ({device}). Kernel {machine['kernel']}, {machine['cpus']} CPUs, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB of memory.",
        f"Model: {model['architecture']}, {model['bytes'] / 1e9:.2f} GB in {model['shards']} shards. "
        f"Disk {data['disk']['number']}: {speed} GB/s in direct reads (before, after), read_ahead_kb "
        f"{data['disk']['read_ahead_kb']}."]
    if "error" in ppc:
        lines.append(f"PPC: not possible here: {ppc['error']}")
    else:
        lines.append(f"PPC: backend {ppc['backend']} (asked for: {ppc['asked']}).")
        lines += [f"- {limit}" for limit in ppc["limits"]]
    if data["device"] != "cuda":
        lines.append("**Not a GPU run**: this proves the harness, it says nothing about a GPU.")
    return lines


def page(data):
    lines = [*head(data), "", *rows(data), *_binding_rows(data)]
    if data["problems"]:
        lines += ["", "Problems:", *(f"- {problem}" for problem in data["problems"])]
    return "\n".join(lines)
