// SPDX-License-Identifier: Apache-2.0
// Owns the address on which metrics are served over HTTP: GET /metrics for callers with the
// token (OpenMetrics if they accept it), GET /health for all.  By libmicrohttpd, on the loop of
// ppcd. Threads: the loop's.
#ifndef PPC_EXTRAS_METRICS_METRICS_SERVER_H_
#define PPC_EXTRAS_METRICS_METRICS_SERVER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/event_loop.h"

struct MHD_Daemon;
struct MHD_Connection;

namespace ppc::control {

// Owns what ppcd tells monitoring: the answer to `status` as OpenMetrics text, and how long starts
// of services took.
// Threads: the loop's.
//
// From service_start to service_ready, by directory and by how the policy treated the start.
class StartTimes {
 public:
  static constexpr std::array kBoundsS = {1, 2, 5, 10, 20, 30, 60, 120, 300, 600};

  struct Histogram {
    std::array<uint64_t, kBoundsS.size() + 1> counts{};  // of each bucket, the last without bound
    uint64_t count = 0;
    double sum_s = 0;
  };
  // Directory and treatment ("policy", "native", ...).
  using Key = std::pair<std::string, std::string>;

  void Add(const std::string& directory, const std::string& treatment, double seconds);
  const std::map<Key, Histogram>& all() const { return all_; }

 private:
  std::map<Key, Histogram> all_;
};

enum class MetricsFormat {
  kOpenMetrics,  // 1.0
  kPrometheus,   // its text format before that, 0.0.4
};

// `status`: the answer to `status`, of all directories.  Counters of a directory
// begin anew with its runner.  `node`: what `ppcctl node --json` prints; null: not known.
std::string MetricsText(const Json& status, const StartTimes& starts, MetricsFormat format,
                        const Json& node = Json());

const char* MetricsType(MetricsFormat format);  // the content type

class MetricsServer {
 public:
  // Asks for the text; the answer may come at once or later.
  using Source = std::function<void(MetricsFormat, std::function<void(std::string)>)>;

  // `address`: "127.0.0.1:9890", "[::1]:9890"; port 0: any, see port().  `token_file`: one line,
  // readable by its owner alone.  Errors name the option and the remedy.
  static Result<std::unique_ptr<MetricsServer>> Listen(EventLoop& loop, const std::string& address,
                                                       const std::string& token_file,
                                                       Source source);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const;

 private:
  struct Question {
    bool is_seen = false;
    bool is_suspended = false;
    MetricsFormat format = MetricsFormat::kPrometheus;
    std::optional<std::string> text;
  };
  struct Stop {
    void operator()(MHD_Daemon* daemon) const;
  };
  friend struct MetricsServerCalls;  // what the library calls

  MetricsServer(EventLoop& loop, std::string token, Source source)
      : loop_(loop), token_(std::move(token)), source_(std::move(source)) {}
  int Answer(MHD_Connection* connection, const std::string& url, const std::string& method);
  int Ask(MHD_Connection* connection, const std::shared_ptr<Question>& question);
  bool HasToken(MHD_Connection* connection) const;
  void Turn();

  EventLoop& loop_;
  const std::string token_;
  const Source source_;
  std::map<MHD_Connection*, std::shared_ptr<Question>> questions_;
  EventLoop::TimerId timer_{};
  int epoll_ = -1;  // the library's
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<MHD_Daemon, Stop> daemon_;  // the last: it calls into the others while it stops
};

}  // namespace ppc::control

#endif  // PPC_EXTRAS_METRICS_METRICS_SERVER_H_
