// SPDX-License-Identifier: Apache-2.0
//
// POST of JSON by libcurl, which is loaded when the first request is made: a process that
// shares no templates over a network needs neither it nor its thirty libraries in memory.
//
// Threads: any; each request has a connection of its own.
#ifndef PPC_EXTRAS_ETCD_HTTP_H_
#define PPC_EXTRAS_ETCD_HTTP_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ppc {

struct HttpReply {
  long status = 0;
  std::string body;
};

inline constexpr size_t kMaxReplyBytes = 8u << 20;

// Everything, from the look-up of the name to the last byte, takes at most timeout_ms.  0, whatever
// the status, or a negative errno: -ETIMEDOUT, -EFBIG, -EIO, -ENOSYS (no libcurl on this machine).
int HttpPost(const std::string& url, const std::string& json, uint32_t timeout_ms, HttpReply* reply,
             std::string* error);

}  // namespace ppc

#endif  // PPC_EXTRAS_ETCD_HTTP_H_
