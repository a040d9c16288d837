/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control client of PPC (libppc), for ppcctl, hooks and control planes.
 *
 * Every call sends one JSON line to a unix socket of ppcd and waits for one
 * line (see docs/control-protocol.md); it never blocks longer than the timeout.
 * Thread safety: a connection is used by one thread at a time.
 *
 * ppcd has two sockets: root's, for everything, and the services' own, which
 * accepts service_start, _ready, _phase, _failed, _stop and status for services
 * of the caller's control group (docs/security.md).  Rights are those of the
 * process that connected, while it lives: connect anew after a fork.
 *
 * Returns: 0, or a negative errno; then ppc_error() is one line that names the
 * thing and the remedy.  -ECONNREFUSED / -ENOENT: no ppcd runs.  -EBUSY: the
 * mount has another policy.  -EACCES: reserved for root or another control
 * group.  -ETIMEDOUT.
 */
#ifndef PPC_CONTROL_H
#define PPC_CONTROL_H

#ifdef __cplusplus
extern "C" {
#endif

#define PPC_API __attribute__((visibility("default")))
#define PPC_DEFAULT_SOCKET "/run/ppc/ppcd.sock"
#define PPC_DEFAULT_SERVICE_SOCKET "/run/ppc/service/ppcd.sock"

struct ppc_client; /* opaque */

/* socket NULL: $PPC_SOCKET, else PPC_DEFAULT_SOCKET; if that is missing or
 * closed to this user, $PPC_SERVICE_SOCKET, else service/ppcd.sock beside it.
 * timeout_ms 0: 20 s.  On failure *client is set too, so that ppc_error()
 * works; close it always. */
PPC_API int ppc_connect(const char *socket, unsigned timeout_ms, struct ppc_client **client);
PPC_API void ppc_close(struct ppc_client *client); /* NULL is fine */

/* mount: a ppc mount or a plain directory, each with the backend that suits it ("auto"; name
 * another with ppc_request); policy: a name ("maio") or a path of a .so; config: JSON object text
 * or NULL.  Repeating an identical registration succeeds with the same handle. */
PPC_API int ppc_reg_policy(struct ppc_client *client, const char *mount, const char *policy,
			   const char *config);
PPC_API int ppc_rm_policy(struct ppc_client *client, const char *mount);

/* spec: JSON object (see docs/control-protocol.md: mount, service_id or the
 * parameters it is computed from, xpus, workers, cgroup).  start returns when the
 * policy has accepted; prefetch goes on in the background. */
PPC_API int ppc_service_start(struct ppc_client *client, const char *spec);
PPC_API int ppc_service_ready(struct ppc_client *client, const char *mount, const char *service_id);
/*
 * A phase of the start-up begins: "init", "weights", "compile", "graphs", or
 * "ready", as above.
 */
PPC_API int ppc_service_phase(struct ppc_client *client, const char *mount, const char *service_id,
			      const char *phase);
/* The service's process has failed and will be started again, so the pages it
 * needs may be loaded from now on.  If the next start does not come within
 * wait_s seconds, 1 to 3600 (0: the policy's choice), the service is stopped.
 * "wait_s" of the reply: the time in force, 0: stopped. */
PPC_API int ppc_service_failed(struct ppc_client *client, const char *mount, const char *service_id,
			       unsigned wait_s);
PPC_API int ppc_service_stop(struct ppc_client *client, const char *mount, const char *service_id);

/* Any request as JSON; the other calls use it.  Answer text of the last call: */
PPC_API int ppc_request(struct ppc_client *client, const char *json);
PPC_API const char *ppc_reply(const struct ppc_client *client); /* JSON, valid until the next call */
PPC_API const char *ppc_error(const struct ppc_client *client); /* "" after success */

#ifdef __cplusplus
}
#endif

#endif /* PPC_CONTROL_H */
