// SPDX-License-Identifier: Apache-2.0
// A library with the functions of DCMI that are used: card 3 with two devices, card 5 with one.
// FAKE_XPU and FAKE_PIDS ("0:12 2:34") as in fake_nvml.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int is(const char *how)
{
	const char *set = getenv("FAKE_XPU");

	return set && !strcmp(set, how);
}

EXPORT int dcmi_init(void)
{
	return is("error") ? -8005 : 0;
}

EXPORT int dcmi_get_card_list(int *count, int *list, int room)
{
	*count = is("strange") ? 1000 : 2;
	if (room >= 2) {
		list[0] = 3;
		list[1] = 5;
	}
	return 0;
}

EXPORT int dcmi_get_device_num_in_card(int card, int *count)
{
	*count = card == 3 ? 2 : 1;
	return card == 5 && is("silent") ? -8012 : 0;
}

static int index_of(int card, int device)
{
	return card == 3 ? device : 2;
}

struct pcie {
	unsigned vendor, subvendor, device, subdevice;
	int domain;
	unsigned bus_id, device_id, function_id;
	unsigned char reserved[32];
};

#ifndef WITHOUT_LIST
EXPORT int dcmi_get_device_pcie_info_v2(int card, int device, struct pcie *info)
{
	memset(info, 0, sizeof(*info));
	info->vendor = 0x19e5;
	info->bus_id = 0xc1 + index_of(card, device);
	return 0;
}
#endif

struct info {
	int pid;
	unsigned long used;
};

EXPORT int dcmi_get_device_resource_info(int card, int device, struct info *infos, int *count)
{
	const char *at = getenv("FAKE_PIDS");
	int on, pid, used;

	*count = 0;
	for (; at && sscanf(at, " %d:%d%n", &on, &pid, &used) == 2; at += used) {
		if (on != index_of(card, device))
			continue;
		infos[*count].pid = pid;
		infos[(*count)++].used = 4096;
	}
	return 0;
}
