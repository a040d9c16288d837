// SPDX-License-Identifier: Apache-2.0
// A library with the functions of NVML that are used, and two devices, for tests.  FAKE_XPU says
// how it behaves, FAKE_PIDS ("0:12 1:34") which processes compute on which device.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int is(const char *how)
{
	const char *set = getenv("FAKE_XPU");

	return set && !strcmp(set, how);
}

EXPORT int nvmlInit_v2(void)
{
	puts("noise");
	if (is("crash"))
		abort();
	while (is("hang"))
		pause();
	if (is("quit"))
		_exit(0);
	for (int fd = 4; is("closed") && fd < 1024; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			return 9;
	}
	return is("error") ? 9 : 0;
}

EXPORT const char *nvmlErrorString(int code)
{
	return code == 9 ? "Driver Not Loaded" : "other";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	static char devices[2];

	*device = &devices[index];
	return index && is("silent") ? 15 : 0;
}

static unsigned index_of(const void *device)
{
	void *first;

	nvmlDeviceGetHandleByIndex_v2(0, &first);
	return device != first;
}

struct pci {
	char legacy[16];
	unsigned domain, bus, device, pci_device, pci_subsystem;
	char bus_id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
	int second = index_of(device);

	pci->domain = second;
	pci->bus = second ? 0x3b : 1;
	pci->device = 0;
	strcpy(pci->bus_id, second ? "00000001:3B:00.1" : "00000000:01:00.0");
	return 0;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes)
{
	snprintf(uuid, bytes, "GPU-%u", index_of(device));
	return 0;
}

#ifndef WITHOUT_LIST
struct info {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

/* The first drivers of release 535 write entries of 32 bytes. */
static int list(const void *device, unsigned *count, char *infos, size_t entry)
{
	const char *at = getenv("FAKE_PIDS");
	unsigned room = *count;
	int on, pid, used;

	*count = 0;
	for (; at && sscanf(at, " %d:%d%n", &on, &pid, &used) == 2; at += used) {
		struct info info = { pid, 1 << 20, ~0u, ~0u };

		if (on != (int)index_of(device))
			continue;
		if (++*count > room)
			continue;
		memset(infos, 0, entry);
		memcpy(infos, &info, sizeof(info));
		infos += entry;
	}
	return *count > room ? 7 : 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *infos)
{
	return list(device, count, infos, sizeof(struct info));
}

#ifndef ONLY_V2
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	return list(device, count, infos, is("longer") ? 32 : is("strange") ? 20 : 24);
}
#endif
#endif
