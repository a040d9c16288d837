// SPDX-License-Identifier: Apache-2.0
// A ppcd of its own for tests that make templates.
#ifndef PPC_EXTRAS_TEMPLATES_TESTS_TEMPLATE_FIXTURE_H_
#define PPC_EXTRAS_TEMPLATES_TESTS_TEMPLATE_FIXTURE_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {

class CtlTemplateTest : public DaemonTest {
 protected:
  // One file with one tensor.
  static void MakeModel(const std::string& path) {
    std::filesystem::create_directories(path);
    const std::string json =
        R"({"m.q_proj.weight":{"dtype":"U8","shape":[64,1024],"data_offsets":[0,65536]}})";
    std::string head(8, '\0');
    head[0] = static_cast<char>(json.size());
    std::ofstream(path + "/model.safetensors") << head + json << std::string(65536, 'x');
    std::ofstream(path + "/config.json") << "{}";
  }
};

}  // namespace ppc::control

#endif  // PPC_EXTRAS_TEMPLATES_TESTS_TEMPLATE_FIXTURE_H_
