// SPDX-License-Identifier: Apache-2.0
// Metrics: the text, checked by an independent strict parser, and its HTTP server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "extras/metrics/metrics_server.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

constexpr const char* kToken = "0123456789abcdef0123";

// Connects to a server on the loopback.
UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{10, 0};
  setsockopt(fd.Get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  EXPECT_EQ(connect(fd.Get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// The answer of a server on the loopback; "" = none.
std::string Fetch(int port, const std::string& request) {
  const UniqueFd fd = Connect(port);
  if (write(fd.Get(), request.data(), request.size()) < 0) return "";
  std::string answer;
  std::array<char, 4096> part{};
  for (ssize_t got; (got = read(fd.Get(), part.data(), part.size())) > 0;) {
    answer.append(part.data(), static_cast<size_t>(got));
  }
  return answer;
}

std::string Get(const std::string& path, const std::string& token,
                const std::string& accept = "*/*") {
  return "GET " + path + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\nAccept: " + accept +
         "\r\n" + (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n";
}

class MetricsTest : public DaemonTest {
 protected:
  std::string TokenFile(const std::string& token = kToken, mode_t mode = 0600) {
    const std::string file = dir_ + "/token";
    std::ofstream(file) << token << "\n";
    chmod(file.c_str(), mode);
    return file;
  }
  // The port that the server got.
  int StartWithMetrics() {
    StartDaemon({"--metrics", "127.0.0.1:0", "--metrics-token", TokenFile()});
    const std::string before = "for metrics on port ";
    const auto told = [&] { return DaemonLog().find(before) != std::string::npos; };
    EXPECT_TRUE(Eventually(told)) << DaemonLog();
    const std::string log = DaemonLog();
    return told() ? std::atoi(log.c_str() + log.find(before) + before.size()) : 0;
  }
  // The samples of a strict parser: "NAME LABELS VALUE" each.
  std::string Parsed(const std::string& text, const std::string& parser = "openmetrics.parser") {
    const std::string file = dir_ + "/metrics";
    std::ofstream(file) << text;
    const ProcessResult parsed = RunProcess(
        {"/usr/bin/python3", "-c",
         "import sys\n"
         "from prometheus_client." +
             parser +
             " import text_string_to_metric_families\n"
             "for f in text_string_to_metric_families(open(sys.argv[1]).read()):\n"
             "    for s in f.samples: print(s.name, *sorted(s.labels.items()), s.value)\n",
         file},
        {"PATH=/usr/bin:/bin"});
    EXPECT_EQ(parsed.exit_status, 0) << parsed.err << text;
    return parsed.out;
  }
  // Exit status and error output.
  ProcessResult Promtool(const std::string& text) {
    const std::string file = dir_ + "/metrics";
    std::ofstream(file) << text;
    return RunProcess({"/bin/sh", "-c", "promtool check metrics <" + file},
                      {std::string("PATH=") + std::getenv("PATH")});
  }
};

StartTimes SomeStarts() {
  StartTimes starts;
  starts.Add("/models", "policy", 0.5);
  starts.Add("/models", "policy", 20);
  starts.Add("/models", "native", 2000);
  return starts;
}

Json SomeStatus() {
  return {{"daemon", {{"version", "0.1.0"}, {"uptime_s", 12.5}}},
          {"mounts",
           {{{"mount", "/with \"quotes\" and \\"},
             {"policy", "maio"},
             {"backend", "observer"},
             {"state", "running"},
             {"restarts", 2},
             {"services", {{{"service_id", "svc-one"}, {"state", "ready"}}}},
             {"runner",
              {{"device", {{"events_queued", 5}, {"events_coalesced", 3}, {"events_lost", 1}}},
               {"events", {{"miss_bytes", 4096}}},
               {"loader", {{"asked", 300}, {"loaded", 200}, {"resident", 100}, {"device_mbps", 7}}},
               {"services",
                {{{"service_id", "svc-one"},
                  {"memory", {{"limit", uint64_t{25276502016}}, {"used", 1}, {"cache", 1}}},
                  {"guard",
                   {{"state", "no_unmap"}, {"regret_bytes", 8192}, {"refused_drop_bytes", 77}}}},
                 {{"service_id", ""}, {"guard", {{"state", "open"}, {"waste_bytes", 9}}}},
                 {{"service_id", "svc-off"}}}}}}},
            {{"mount", "/failed"}, {"policy", "maio"}, {"state", "failed"}}}}};
}

Json SomeNode() {
  return {{"node", "a"},
          {"memory_bytes", 1000},
          {"free_bytes", 400},
          {"disk_rates", {{"/models", 3e9}}},
          {"models",
           {{{"model", "org/\"m\""},
             {"directory", "/models"},
             {"bytes", 500},
             {"resident", 250},
             {"template", true},
             {"artifacts", false}}}},
          {"starts", {{{"service_id", "svc-one"}, {"directory", "/models"}, {"left", 77}}}}};
}

TEST_F(MetricsTest, AStrictParserTakesThem) {
  const std::string parsed =
      Parsed(MetricsText(SomeStatus(), SomeStarts(), MetricsFormat::kOpenMetrics));
  for (const char* line :
       {"ppc_build_info ('version', '0.1.0') 1\n", "ppc_up_seconds 12.5\n",
        "ppc_runner_restarts_total ('directory', '/with \"quotes\" and \\\\') 2\n",
        "ppc_events_total ('directory', '/with \"quotes\" and \\\\') ('result', 'events_lost') "
        "1\n",
        "('kind', 'limit') ('service', 'svc-one') 25276502016\n",
        "('service', 'svc-one') ('state', 'no_unmap') 1\n",
        "('kind', 'regret') ('service', 'svc-one') 8192\n",
        "('kind', 'refused_drops') ('service', 'svc-one') 77\n",
        "('kind', 'waste') ('service', '') 9\n",
        "ppc_device_bytes_per_second ('directory', '/with \"quotes\" and \\\\') 7000000\n",
        "('le', '1.0') ('treatment', 'policy') 1\n", "('le', '20.0') ('treatment', 'policy') 2\n",
        "('le', '600.0') ('treatment', 'native') 0\n",
        "ppc_service_start_seconds_sum ('directory', '/models') ('treatment', 'policy') 20.5\n"}) {
    EXPECT_TRUE(Has(parsed, line));
  }
  const std::string off =
      "ppc_guard ('directory', '/with \"quotes\" and \\\\') ('service', 'svc-off')";
  EXPECT_EQ(parsed.find(off), std::string::npos) << parsed;
}

// One of the parsers writes 2.0 for 2.
std::vector<std::string> SortedLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line.ends_with(".0") ? line.substr(0, line.size() - 2) : line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST_F(MetricsTest, TheOlderFormatTellsTheSame) {
  const auto text = [](MetricsFormat format) {
    return MetricsText(SomeStatus(), SomeStarts(), format, SomeNode());
  };
  const std::string older = text(MetricsFormat::kPrometheus);
  EXPECT_EQ(SortedLines(Parsed(older, "parser")),
            SortedLines(Parsed(text(MetricsFormat::kOpenMetrics))));
  // `ppcctl metrics` prints this format too.
  Start();
  const std::string printed = Out({"metrics", "--format", "prometheus"});
  EXPECT_TRUE(Has(Parsed(printed, "parser"), "ppc_runner_restarts_total ('directory', '/proc')"));
}

// Prometheus's own check of names, types, units and help.
TEST_F(MetricsTest, PromtoolHasNoComplaint) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "no promtool here";
  const ProcessResult planted =
      Promtool("# HELP ppc_loads Loads.\n# TYPE ppc_loads counter\nppc_loads 1\n");
  EXPECT_NE(planted.exit_status, 0) << "it finds nothing";
  Start();
  for (const std::string& text :
       {MetricsText(SomeStatus(), SomeStarts(), MetricsFormat::kPrometheus, SomeNode()),
        Ctl({"metrics", "--format", "prometheus"}).out}) {
    const ProcessResult result = Promtool(text);
    EXPECT_EQ(result.exit_status, 0) << result.err << text;
    EXPECT_EQ(result.out + result.err, "") << text;
  }
}

TEST_F(MetricsTest, TheSocketAndTheAddressTellTheSame) {
  const int port = StartWithMetrics();
  Register();
  ASSERT_EQ(Tell("service_start", "svc-one")["ok"], true);
  ASSERT_EQ(Tell("service_ready", "svc-one")["ok"], true);
  const std::string parsed = Parsed(Out({"metrics"}));
  const std::string start =
      "ppc_service_start_seconds_count ('directory', '/proc') ('treatment', 'policy') 1\n";
  EXPECT_TRUE(Has(parsed, start));
  const std::string answer =
      Fetch(port, Get("/metrics", kToken, "application/openmetrics-text;version=1.0.0,*/*;q=0.1"));
  EXPECT_EQ(answer.substr(0, 15), "HTTP/1.1 200 OK") << answer;
  EXPECT_TRUE(Has(answer, "openmetrics-text"));
  const std::string served = Parsed(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_TRUE(Has(served, start));
  const std::string older = Get("/metrics", kToken);
  const std::string plain = Fetch(port, older);
  EXPECT_TRUE(Has(plain, "text/plain; version=0.0.4"));
  EXPECT_TRUE(Has(plain, "# TYPE ppc_events_total counter"));
  EXPECT_EQ(plain.find("# EOF"), std::string::npos) << plain;
  EXPECT_EQ(Ask({{"op", "metrics"}, {"format", "xml"}})["ok"], false);
  // A second ready is no further start.
  ASSERT_EQ(Tell("service_ready", "svc-one")["ok"], true);
  EXPECT_NE(Parsed(Ctl({"metrics"}).out).find(start), std::string::npos);
}

// The state from `ppcctl node`, until it expires: ppcd gathers none of it.
TEST_F(MetricsTest, WhatTheNodeHasInMemoryIsShownWhileItIsFresh) {
  StartDaemon();
  EXPECT_EQ(Parsed(Ctl({"metrics"}).out).find("ppc_model"), std::string::npos);
  ASSERT_EQ(Ask({{"op", "node_state"}, {"node", SomeNode()}, {"for_s", 60}})["ok"], true);
  const std::string model = "('directory', '/models') ('model', 'org/\"m\"')";
  const std::string parsed = Parsed(Ctl({"metrics"}).out);
  for (const std::string& line : std::vector<std::string>{
           "ppc_node_memory_bytes ('kind', 'free') 400\n", "ppc_model_bytes " + model + " 500\n",
           "ppc_model_resident_bytes " + model + " 250\n",
           "ppc_model_has " + model + " ('what', 'template') 1\n",
           "ppc_model_has " + model + " ('what', 'artifacts') 0\n",
           "ppc_start_left_bytes ('directory', '/models') ('service', 'svc-one') 77\n",
           "ppc_node_disk_bytes_per_second ('directory', '/models') 3000000000\n"}) {
    EXPECT_TRUE(Has(parsed, line));
  }
  // Malformed values become 0 and break no family.
  const Json nonsense = {{"models", {"m"}}, {"starts", 3}, {"disk_rates", {1}}};
  ASSERT_EQ(Ask({{"op", "node_state"}, {"node", nonsense}, {"for_s", 0}})["ok"], true);
  EXPECT_EQ(Parsed(Ctl({"metrics"}).out).find("ppc_model"), std::string::npos);  // not fresh
  ASSERT_EQ(Ask({{"op", "node_state"}, {"node", nonsense}, {"for_s", 60}})["ok"], true);
  EXPECT_NE(Parsed(Ctl({"metrics"}).out).find("ppc_model_bytes"), std::string::npos);
  EXPECT_EQ(Ask({{"op", "node_state"}, {"node", 7}, {"for_s", 60}})["code"], "EINVAL");
}

TEST_F(MetricsTest, NobodyElseIsTold) {
  const int port = StartWithMetrics();
  for (const std::string& token : {std::string(), std::string("0123456789abcdef0124"),
                                   std::string(kToken) + "x", std::string(kToken, 10)}) {
    EXPECT_EQ(Fetch(port, Get("/metrics", token)).substr(0, 12), "HTTP/1.1 401") << token;
  }
  EXPECT_EQ(Fetch(port, Get("/health", "")).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(Fetch(port, Get("/", kToken)).substr(0, 12), "HTTP/1.1 404");
  EXPECT_EQ(Fetch(port,
                  "POST /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n"
                  "\r\nabc")
                .substr(0, 12),
            "HTTP/1.1 405");
  // A client that sends nonsense, or nothing, delays no other client.
  const UniqueFd silent = Connect(port);
  (void)Fetch(port, std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(Fetch(port, Get("/metrics", kToken)).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(StopDaemon(), 0) << DaemonLog();
}

// A runner that answers slowly: its reader waits, others do not, and ppcd can end.
TEST_F(MetricsTest, AReaderWaitsForTheRunners) {
  const int port = StartWithMetrics();
  Register();
  kill(RunnerPid(), SIGSTOP);
  const std::string answer = Fetch(port, Get("/metrics", kToken));
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 200") << answer;
  EXPECT_TRUE(Has(answer, "ppc_up_seconds"));
  kill(RunnerPid(), SIGCONT);
}

TEST_F(MetricsTest, WhatIsWrongIsSaid) {
  const std::string good = TokenFile();
  const auto says = [this](const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {std::string(PPC_TEST_BIN_DIR) + "/ppcd", "--socket",
                                     dir_ + "/other.sock", "--state-dir", dir_ + "/other"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const ProcessResult result = RunProcess(argv, {"PATH=/usr/bin:/bin"});
    EXPECT_EQ(result.exit_status, 1);
    return result.err;
  };
  EXPECT_TRUE(Has(says({"--metrics", "localhost", "--metrics-token", good}),
                  "is not an address and a port"));
  EXPECT_NE(says({"--metrics", "127.0.0.1:9890"}).find("needs --metrics-token"), std::string::npos);
  EXPECT_TRUE(Has(says({"--metrics", "127.0.0.1:0", "--metrics-token", TokenFile("short")}),
                  "fewer than 16 characters"));
  EXPECT_TRUE(Has(says({"--metrics", "127.0.0.1:0", "--metrics-token", TokenFile(kToken, 0644)}),
                  "chmod 600"));
  EXPECT_TRUE(
      Has(says({"--metrics", "203.0.113.1:9", "--metrics-token", TokenFile()}), "cannot listen"));
}

}  // namespace
}  // namespace ppc::control
