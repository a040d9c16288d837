# SPDX-License-Identifier: Apache-2.0
"""Process -> GPU -> NUMA node: what the runtime found against what torch and sysfs say."""
import os
import re


def normal_bus_id(text):
    """"00000000:3B:00.0" as "0000:3b:00.0"; None of anything else."""
    parts = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-9a-fA-F]+)", text or "")
    if parts is None:
        return None
    domain, bus, device, function = (int(part, 16) for part in parts.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def node_of(bus_id, sys="/sys"):
    """The node that sysfs gives the device; None: it gives none."""
    try:
        with open(os.path.join(sys, "bus/pci/devices", bus_id or "?", "numa_node"), encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def xpu_numbers(bus_ids, xpus):
    """Our numbers of the devices with these addresses; [] unless all are known."""
    numbers = {normal_bus_id(xpu.get("bdf")): index for index, xpu in enumerate(xpus)}
    found = [numbers.get(normal_bus_id(bus_id)) for bus_id in bus_ids]
    return [] if None in found else found


def binding(worker, explained):
    """One worker's row: torch's device, what explain-pid says, and whether they agree."""
    bus_id = normal_bus_id(worker["device"]["bus_id"])
    nvml = next((one for one in explained.get("providers", []) if one.get("provider") == "NVML"), {})
    winner = next((one for one in explained.get("providers", []) if one.get("wins")), {})
    found = normal_bus_id(explained.get("bdf"))
    said_by_nvml = normal_bus_id(nvml.get("bdf"))
    return {"rank": worker["rank"], "pid": worker["pid"], "device": worker["device"]["name"],
            "torch_bus_id": bus_id, "sysfs_node": node_of(bus_id),
            "explain_bus_id": found, "explain_node": explained.get("node"),
            "decided_by": winner.get("provider"), "nvml_bus_id": said_by_nvml, "nvml_says": nvml.get("says"),
            "error": explained.get("error"),
            "agrees": None if bus_id is None else bus_id == found and said_by_nvml in (None, bus_id)}
