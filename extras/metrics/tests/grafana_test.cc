// SPDX-License-Identifier: Apache-2.0
// The dashboard in packaging/grafana uses only metrics that ppcd exports, and all of them.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "extras/metrics/metrics_server.h"

namespace ppc::control {
namespace {

// Each sample's name, with the values of each label.
using Told = std::map<std::string, std::map<std::string, std::set<std::string>>>;

Told ToldByDaemon() {
  StartTimes starts;
  for (const char* treatment : {"policy", "native", "record", "none"}) {
    starts.Add("/models", treatment, 1);
  }
  const Json status = {
      {"daemon", {{"version", "0.1.0"}}},
      {"mounts",
       {{{"mount", "/models"},
         {"services", {{{"service_id", "svc-one"}}}},
         {"runner",
          {{"faults", 0},
           {"services", {{{"service_id", "svc-one"}, {"guard", {{"state", "open"}}}}}}}}}}}};
  const std::string text = MetricsText(status, starts, MetricsFormat::kPrometheus);
  static const std::regex kSample("(?:^|\n)(ppc_\\w+)(?:\\{(.*)\\})? ");
  static const std::regex kLabel("(\\w+)=\"([^\"]*)\"");
  Told told;
  for (std::sregex_iterator it(text.begin(), text.end(), kSample), end; it != end; ++it) {
    auto& labels = told[(*it)[1]];
    const std::string list = (*it)[2];
    for (std::sregex_iterator label(list.begin(), list.end(), kLabel); label != end; ++label) {
      labels[(*label)[1]].insert((*label)[2]);
    }
  }
  return told;
}

Json Dashboard() {
  std::ifstream file(PPC_TEST_SOURCE_DIR "/packaging/grafana/ppc.json");
  return Json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::vector<std::string> Queries(const Json& dashboard) {
  std::vector<std::string> queries;
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel["targets"]) queries.push_back(target["expr"]);
  }
  for (const Json& variable : dashboard["templating"]["list"]) {
    if (variable["type"] == "query") queries.push_back(variable["query"]["query"]);
  }
  return queries;
}

// The part of a query that ppcd does not export; "" = none.
std::string Unknown(const Told& told, const std::string& query) {
  static const std::regex kSelector(R"((ppc_\w+)(?:\{([^}]*)\})?)");
  static const std::regex kMatcher(R"x((\w+)(=~|!=|=)"([^"]*)")x");
  std::string unknown;
  for (std::sregex_iterator it(query.begin(), query.end(), kSelector), end; it != end; ++it) {
    const auto metric = told.find((*it)[1]);
    if (metric == told.end()) return (*it)[1];
    const std::string matchers = (*it)[2];
    for (std::sregex_iterator each(matchers.begin(), matchers.end(), kMatcher); each != end;
         ++each) {
      const auto label = metric->second.find((*each)[1]);
      const std::string value = (*each)[3];
      if (label == metric->second.end()) return (*each)[0];
      if (!value.starts_with('$') && !label->second.contains(value)) return (*each)[0];
    }
  }
  // A label in `by` must belong to a metric of the query, or to every scrape.
  static const std::regex kBy(R"((?:by|on|group_left) \(([^)]*)\))");
  static const std::regex kName(R"(\w+)");
  for (std::sregex_iterator it(query.begin(), query.end(), kBy), end; it != end; ++it) {
    const std::string list = (*it)[1];
    for (std::sregex_iterator name(list.begin(), list.end(), kName); name != end; ++name) {
      bool is_known = name->str() == "instance";
      for (const auto& [metric, labels] : told) {
        is_known = is_known || (query.find(metric) != query.npos && labels.contains(name->str()));
      }
      if (!is_known) return name->str();
    }
  }
  return unknown;
}

TEST(Grafana, AsksForWhatIsTold) {
  const Json dashboard = Dashboard();
  ASSERT_TRUE(dashboard.is_object()) << "not JSON";
  const Told told = ToldByDaemon();
  const std::vector<std::string> queries = Queries(dashboard);
  EXPECT_GE(queries.size(), 15U);
  for (const std::string& query : queries) EXPECT_EQ(Unknown(told, query), "") << query;
}

// The check itself can fail.
TEST(Grafana, WhatIsNotToldIsFound) {
  const Told told = ToldByDaemon();
  EXPECT_EQ(Unknown(told, "rate(ppc_load_byte_total[5m])"), "ppc_load_byte_total");
  EXPECT_EQ(Unknown(told, "ppc_load_bytes_total{result=\"load\"}"), "result=\"load\"");
  EXPECT_EQ(Unknown(told, "ppc_load_bytes_total{mount=~\"$directory\"}"), "mount=~\"$directory\"");
  EXPECT_EQ(Unknown(told, "sum by (mount) (ppc_cache_bytes)"), "mount");
}

TEST(Grafana, ShowsAllThatIsTold) {
  std::string all;
  for (const std::string& query : Queries(Dashboard())) all += query + "\n";
  for (const auto& [metric, labels] : ToldByDaemon()) {
    EXPECT_NE(all.find(metric), std::string::npos) << "no panel shows " << metric;
  }
}

TEST(Grafana, CanBeImported) {
  const Json dashboard = Dashboard();
  std::set<int> ids;
  std::vector<std::array<int, 4>> places;
  for (const Json& panel : dashboard["panels"]) {
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second) << panel["id"];
    EXPECT_TRUE(panel["type"] == "timeseries" || panel["type"] == "stat" ||
                panel["type"] == "bargauge");
    // Independent of the data source's name.
    EXPECT_EQ(panel["datasource"]["uid"], "${datasource}");
    for (const Json& target : panel["targets"]) {
      EXPECT_EQ(target["datasource"]["uid"], "${datasource}");
    }
    const Json& at = panel["gridPos"];
    places.push_back({at["x"], at["y"], at["w"], at["h"]});
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [x, y, w, h] = places[i];
    EXPECT_LE(x + w, 24);
    for (size_t j = 0; j < i; ++j) {
      const auto& [x2, y2, w2, h2] = places[j];
      EXPECT_FALSE(x < x2 + w2 && x2 < x + w && y < y2 + h2 && y2 < y + h) << "panels overlap";
    }
  }
}

}  // namespace
}  // namespace ppc::control
