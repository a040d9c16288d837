// SPDX-License-Identifier: GPL-2.0-only
/* 6.2: ->devnode() takes a const device. */
#include <linux/device.h>

static char *probe_devnode(const struct device *dev, umode_t *mode)
{
	return NULL;
}

struct class probe = { .name = "probe", .devnode = probe_devnode };
