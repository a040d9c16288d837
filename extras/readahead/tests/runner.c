// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel's test_progs is to one of its tests: runs prog_tests/bpf_readahead.c, with the kernel's own
 * test_progs.h, without building the hundreds of others.  Prints a line for each subtest.
 */
#include "test_progs.h"

void serial_test_bpf_readahead(void);

struct test_env env;
static const char *current;
static int failures, failed_subtests, is_skipped;

static void finish_subtest(void)
{
	if (current && failures)
		printf("not ok selftest/%s - %d checks\n", current, failures);
	else if (current && is_skipped)
		printf("skip selftest/%s - the test needs pages of 4 KiB and mkfs.ext4\n", current);
	else if (current)
		printf("ok selftest/%s\n", current);
	failed_subtests += failures > 0;
	failures = is_skipped = 0;
}

bool test__start_subtest(const char *name)
{
	finish_subtest();
	current = name;
	return true;
}

void test__fail(void)
{
	failures++;
}

void test__skip(void)
{
	is_skipped = 1;
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	current = "setup";
	serial_test_bpf_readahead();
	finish_subtest();
	return failed_subtests > 0;
}
