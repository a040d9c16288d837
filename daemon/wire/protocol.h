// SPDX-License-Identifier: Apache-2.0
// Owns the words of the control protocol (docs/control-protocol.md): which
// requests exist, which fields they have, and the shape of answers.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_WIRE_PROTOCOL_H_
#define PPC_DAEMON_WIRE_PROTOCOL_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::control {

inline constexpr int kProtocolVersion = 1;
inline constexpr size_t kMaxLineBytes = 256 * 1024;  // without the newline
inline constexpr const char* kVersionText = "0.1.0";
inline constexpr const char* kDefaultSocket = "/run/ppc/ppcd.sock";
// What a peer of the service socket may send; without the newline.
inline constexpr size_t kMaxServiceLineBytes = 16 * 1024;

// Where the service socket is by default: below the admin socket's directory, in one
// of its own, which containers get without the other socket.
std::string ServiceSocketBeside(const std::string& admin_socket);
// The file whose being there says that PPC is switched off: beside the templates, which outlive a
// reboot.
std::string OffMark(const std::string& template_dir);
// The command that starts the ppcd of an admin socket.  The service manager's has the usual one;
// root stands for "/".
std::string HowToStart(const std::string& admin_socket, const std::string& root = "");

// Descriptor on which a runner talks to ppcd.
inline constexpr int kRunnerChannelFd = 3;
// The first of those that ppcd lends it; init says how many.
inline constexpr int kRunnerLentFd = 4;

struct Request {
  std::string op;
  Json body;
  bool changes_state = false;
  bool is_for_services = false;  // the service socket takes it, too
};

// One line without its newline.  Version, op, presence and type of every field
// are checked, unknown fields refused; meaning is the handler's business.
Result<Request> ParseRequest(std::string_view line);
// All that there are.
std::vector<std::string> OperationNames();

// Called once per request with the whole answer, from within its handler or later.
using Reply = std::function<void(Json)>;

Json OkAnswer();
// With the members of `more` that it has not itself.
Json OkAnswer(const Json& more);
// Holds at most kMaxErrorText bytes: a longer text lacks its middle.
constexpr size_t kMaxErrorText = 1500;
Json ErrorAnswer(const Error& error);
// The Error an answer carries; only for answers with "ok": false.
Error AnswerError(const Json& answer);
// True when `answer` is an object with "ok": true.
bool IsOk(const Json& answer);

// "EBUSY" <-> EBUSY; unknown: "EIO" and EIO.
std::string ErrnoName(int code);
int ErrnoFromName(std::string_view name);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_PROTOCOL_H_
