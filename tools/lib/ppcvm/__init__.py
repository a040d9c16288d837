# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/vm: options, disks, initramfs, machine (QEMU's arguments), session, kmsg."""
