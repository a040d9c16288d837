# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line for the machine that was asked for."""
import hashlib

MIB = 1 << 20

# no_timer_check: on a busy host the emulated timer is late, and the kernel would give it up.
# tsc: emulated CPUs read the host's counter, which is the same for all of them.
# quiet: the console is for a dying kernel; the log travels over its own channel.
PARAMETERS = ("quiet panic=-1 oops=panic mitigations=off nokaslr log_buf_len=4M "
              "printk.devkmsg=on sysrq_always_enabled watchdog_thresh=60 "
              "rcupdate.rcu_cpu_stall_timeout=120 random.trust_cpu=on tsc=reliable "
              "no_timer_check")
# A counting machine's clock jumps ahead while all wait for the host's disk: no task hangs.
COUNTING = "sysctl.kernel.hung_task_timeout_secs=0"


# QEMU's program and machine, and the console's device.
MACHINES = {
    "amd64": (["qemu-system-x86_64", "-M", "q35", "-cpu", "max,la57=off"], "ttyS0"),
    # Pointer authentication costs an emulator more than everything else.
    "arm64": (["qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "max,pauth=off"], "ttyAMA0"),
}


def architecture(release):
    return "arm64" if "-arm64" in release else "amd64"


def console(release):
    return MACHINES[architecture(release)][1]


def topology(options):
    """Processors, memory and NUMA nodes."""
    nodes = options.nodes
    arguments = ["-m", str(options.mem // MIB)]
    if nodes == 1 and not options.xpus:
        return arguments + ["-smp", str(options.cpus)]
    share = options.mem // MIB // nodes
    arguments = ["-m", str(share * nodes),
                 "-smp", f"cpus={options.cpus},sockets={nodes},cores={options.cpus // nodes},threads=1"]
    for node in range(nodes):
        arguments += ["-object", f"memory-backend-ram,id=mem{node},size={share}M",
                      "-numa", f"node,nodeid={node},memdev=mem{node}",
                      "-numa", f"cpu,node-id={node},socket-id={node}"]
    return arguments


def accelerators(xpus):
    """Display devices, each behind a PCI root of its node, so that sysfs tells the node.

    One root per device keeps their PCI addresses in the order that was asked for.
    """
    arguments = []
    for index, node in enumerate(xpus):
        arguments += ["-device", f"pxb-pcie,id=root{index},bus_nr={16 + 8 * index},bus=pcie.0,numa_node={node}",
                      "-device", f"pcie-root-port,id=port{index},bus=root{index},chassis={index + 1}",
                      "-device", f"bochs-display,bus=port{index},id=xpu{index}"]
    return arguments


def share(name, path, readonly):
    path = path.replace(",", ",,")
    mode = ",readonly=on" if readonly else ""
    return ["-fsdev", f"local,id={name},path={path},security_model=none,multidevs=remap{mode}",
            "-device", f"virtio-9p-pci,bus=pcie.0,fsdev={name},mount_tag={name}"]


def channel(name, fd):
    return ["-chardev", f"socket,id={name},fd={fd}",
            "-device", f"virtserialport,chardev={name},name=ppc.{name}"]


def network(net):
    """A card on the multicast group of the network's name: each guest's frames reach all others, none is in between.

    Everything stays on the loopback device.
    """
    if net is None:
        return []
    digest = hashlib.sha256(net.name.encode()).digest()
    port = 20000 + int.from_bytes(digest[2:4], "big") % 10000
    return ["-netdev", f"socket,id=net,mcast=239.255.{digest[0]}.{digest[1]}:{port},localaddr=127.0.0.1",
            "-device", f"virtio-net-pci,bus=pcie.0,netdev=net,mac=52:54:00:77:00:{net.index + 1:02x},romfile="]


def command(options, release, kernel, initramfs, out, fds, disk_arguments):
    """fds: descriptors of the sockets out, log, console, monitor."""
    program, *machine = MACHINES[architecture(release)][0]
    if options.icount:
        acceleration = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
    else:
        acceleration = ["-accel", f"tcg,thread={'single' if options.one_thread else 'multi'}"]
    return [program, "-nodefaults", "-no-user-config", *machine, *acceleration, *topology(options),
            "-display", "none", "-no-reboot",
            "-kernel", kernel, "-initrd", initramfs, "-append", " ".join(
                [f"console={console(release)} {PARAMETERS}", *([COUNTING] if options.icount else []), options.append]).strip(),
            "-chardev", f"socket,id=console,fd={fds['console']}", "-serial", "chardev:console",
            "-chardev", f"socket,id=monitor,fd={fds['monitor']}", "-mon", "chardev=monitor,mode=control",
            "-device", "virtio-serial-pci,bus=pcie.0", *channel("out", fds["out"]), *channel("log", fds["log"]),
            "-device", "virtio-rng-pci,bus=pcie.0", *share("rootfs", "/", True), *share("outdir", out, False),
            *accelerators(options.xpus), *network(options.net), *disk_arguments]
