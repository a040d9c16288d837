#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Asks one kernel which interfaces it has: every compat/probes/NAME.c that
# compiles against it becomes "#define PPC_HAVE_NAME 1" in OUTDIR/ppc_probes.h.
# Usage: probe.sh KDIR OUTDIR      (KDIR: the kernel's build directory)
# The compiler's answers stay in OUTDIR/ppc_probes.log.
set -eu

if [ $# -ne 2 ]; then
	echo "usage: $0 KDIR OUTDIR" >&2
	exit 2
fi
kdir=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$out/.probe.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

{
	echo "KBUILD_MODPOST_WARN := 1"
	echo "ccflags-y += -Werror=implicit-function-declaration -Werror=incompatible-pointer-types"
	echo "ccflags-y += -Werror=int-conversion"
	for probe in "$here"/probes/*.c; do
		name=$(basename "$probe" .c)
		cp "$probe" "$work/$name.c"
		echo "obj-m += $name.o"
	done
} >"$work/Kbuild"

# Objects only: linking a probe would need MODULE_LICENSE and the symbols.
objects=
for probe in "$here"/probes/*.c; do
	objects="$objects $(basename "$probe" .c).o"
done
# shellcheck disable=SC2086
env -u sub_make_done -u MAKEFLAGS -u MAKEOVERRIDES -u MFLAGS -u MAKELEVEL -u M -u KBUILD_EXTMOD \
	make -k -j2 -C "$kdir" M="$work" CONFIG_DEBUG_INFO_BTF_MODULES= \
	$objects >"$out/ppc_probes.log" 2>&1 || true

# A broken build would look like a kernel without any of the interfaces.
release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null || echo "in $kdir")
if [ ! -f "$work/canary_yes.o" ] || [ -f "$work/canary_no.o" ]; then
	echo "ppc: kernel $release cannot be built for: its headers or its compiler do not work here; see $out/ppc_probes.log" >&2
	exit 1
fi
if [ ! -f "$work/minimum.o" ]; then
	echo "ppc: kernel $release is not supported: the module needs 5.10 or newer" >&2
	exit 1
fi

tmp=$(mktemp "$out/.ppc_probes.XXXXXX")
{
	echo "/* SPDX-License-Identifier: GPL-2.0-only */"
	echo "/* Made by compat/probe.sh; do not edit. */"
	for probe in "$here"/probes/*.c; do
		name=$(basename "$probe" .c)
		upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
		if [ -f "$work/$name.o" ]; then
			echo "#define PPC_HAVE_$upper 1"
		else
			echo "/* no $upper */"
		fi
	done
} >"$tmp"
chmod 644 "$tmp"
mv "$tmp" "$out/ppc_probes.h"
