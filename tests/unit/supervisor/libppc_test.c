/* SPDX-License-Identifier: Apache-2.0 */
/* libppc as a C program uses it, linked against the shared library.  Called by
 * libppc_test.cc with a daemon behind $PPC_SOCKET; exits with the number of the
 * line that failed. */
#include <errno.h>
#include <ppc/control.h>
#include <string.h>

#define CHECK(condition) \
	do {             \
		if (!(condition)) return __LINE__ % 250 + 1; \
	} while (0)

static int with_daemon(void)
{
	struct ppc_client *client = NULL;

	CHECK(ppc_connect(NULL, 0, &client) == 0);
	CHECK(ppc_reg_policy(client, "/proc", "alpha", NULL) == 0);
	CHECK(strstr(ppc_reply(client), "\"handle\"") != NULL);
	CHECK(*ppc_error(client) == '\0');
	CHECK(ppc_reg_policy(client, "/proc", "alpha", "{}") == 0);
	CHECK(ppc_reg_policy(client, "/proc", "beta", NULL) == -EBUSY);
	CHECK(strstr(ppc_error(client), "alpha") != NULL);
	CHECK(ppc_reg_policy(client, "/proc", "alpha", "{broken") == -EINVAL);
	CHECK(ppc_service_start(client, "{\"mount\":\"/proc\",\n \"service_id\":\"svc-c\"}") == 0);
	CHECK(ppc_service_phase(client, "/proc", "svc-c", "weights") == 0);
	CHECK(ppc_service_phase(client, "/proc", "svc-c", "later") == -EINVAL);
	CHECK(ppc_service_phase(client, "/proc", "svc-c", NULL) == -EINVAL);
	CHECK(ppc_service_ready(client, "/proc", "svc-c") == 0);
	CHECK(ppc_service_failed(client, "/proc", "svc-c", 3601) == -EINVAL);
	CHECK(ppc_service_stop(client, "/proc", "svc-c") == 0);
	CHECK(ppc_service_stop(client, "/proc", "svc-c") == -ENOENT);
	CHECK(ppc_service_failed(client, "/proc", "svc-c", 0) == -ENOENT);
	CHECK(ppc_service_start(client, "{\"mount\":\"/proc\",\"service_id\":\"svc-c\"}") == 0);
	CHECK(ppc_service_failed(client, "/proc", "svc-c", 60) == 0);
	CHECK(strstr(ppc_reply(client), "\"wait_s\"") != NULL);
	CHECK(ppc_request(client, "{\"op\":\"ping\"}") == 0);
	CHECK(ppc_request(client, "[]") == -EINVAL);
	CHECK(ppc_request(client, NULL) < 0);
	CHECK(ppc_rm_policy(client, "/proc") == 0);
	CHECK(ppc_rm_policy(client, NULL) == -EINVAL);
	ppc_close(client);
	return 0;
}

static int without_daemon(void)
{
	struct ppc_client *client = NULL;
	int code = ppc_connect(NULL, 100, &client);

	CHECK(code == -ENOENT || code == -ECONNREFUSED);
	CHECK(client != NULL && *ppc_error(client) != '\0');
	CHECK(ppc_request(client, "{\"op\":\"ping\"}") == code);
	ppc_close(client);
	CHECK(ppc_connect("/a/path/that/is/too/long/for/a/socket/address/0123456789/0123456789/"
			  "0123456789/0123456789/0123456789/0123456789",
			  0, &client) == -ENAMETOOLONG);
	ppc_close(client);
	ppc_close(NULL);
	CHECK(ppc_connect(NULL, 0, NULL) == -EINVAL);
	CHECK(ppc_request(NULL, "{}") == -EINVAL);
	return 0;
}

/* A socket that accepts and never answers. */
static int with_mute_daemon(void)
{
	struct ppc_client *client = NULL;

	CHECK(ppc_connect(NULL, 200, &client) == 0);
	CHECK(ppc_request(client, "{\"op\":\"ping\"}") == -ETIMEDOUT);
	CHECK(strstr(ppc_error(client), "200 ms") != NULL);
	ppc_close(client);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) return 255;
	if (strcmp(argv[1], "with") == 0) return with_daemon();
	if (strcmp(argv[1], "mute") == 0) return with_mute_daemon();
	return without_daemon();
}
