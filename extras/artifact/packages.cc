// SPDX-License-Identifier: Apache-2.0
// Finds packages installed for an interpreter by reading directories; runs nothing.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>

#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "extras/artifact/files_at.h"
#include "extras/artifact/key.h"

namespace ppc::artifact {
namespace {

// Packages that compile, are compiled for, or decide what is compiled.
constexpr std::array<std::string_view, 14> kPackages = {
    "torch",      "triton",    "pytorch_triton_rocm", "vllm",         "vllm_ascend",
    "sglang",     "lmdeploy",  "tensorrt_llm",        "transformers", "flashinfer_python",
    "sgl_kernel", "deep_gemm", "torch_npu",           "tilelang"};
constexpr size_t kMaxWords = 16;  // words of a command to search for its program

struct FreePath {
  void operator()(char* path) const { std::free(path); }
};

std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string Above(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool IsInterpreter(std::string_view name) {
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

std::vector<std::string> SplitPath(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string FindProgram(const Environment& environment, const std::string& word) {
  if (word.find('/') != std::string::npos) return access(word.c_str(), X_OK) == 0 ? word : "";
  for (const std::string& directory : SplitPath(environment("PATH"))) {
    std::string program = directory + "/" + word;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// "#!/opt/venv/bin/python3 -s" and "#!/usr/bin/env python3".
std::string InterpreterOfScript(const Environment& environment, const std::string& script) {
  const Result<std::string> head = ReadFile(script, 256);
  if (!head || !head->starts_with("#!")) return "";
  std::istringstream words(head->substr(2, head->find('\n') - 2));
  for (std::string word; words >> word;) {
    if (IsInterpreter(NameIn(word))) return FindProgram(environment, word);
  }
  return "";
}

// pyenv's programs are scripts that choose a version.
std::string BehindShim(const Environment& environment, const std::string& program) {
  const std::string directory = Above(program);
  if (NameIn(directory) != "shims") return program;
  std::string version = environment("PYENV_VERSION");
  const Result<std::string> global = ReadLine(Above(directory) + "/version");
  if (version.empty() && global) version = *global;
  const std::string real =
      Above(directory) + "/versions/" + version.substr(0, version.find(':')) + "/bin/python3";
  return !version.empty() && access(real.c_str(), X_OK) == 0 ? real : program;
}

std::string Canonical(const std::string& path) {
  const std::unique_ptr<char, FreePath> real(realpath(path.c_str(), nullptr));
  return real ? real.get() : path;
}

std::string NormalName(std::string_view name) {
  std::string normal;
  for (const char c : name) {
    normal +=
        c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return normal;
}

// Directories below a prefix, for the interpreter's version if known.
void AddSites(const std::string& prefix, const std::string& python,
              std::vector<std::string>* sites) {
  for (const std::string& lib : {prefix + "/local/lib", prefix + "/lib", prefix + "/lib64"}) {
    const Result<std::vector<std::string>> names = NamesAt(-1, lib + "/.");
    if (!names) continue;
    for (const std::string& name : *names) {
      const bool is_any = name == "python3" || python == "python3" || python == "python";
      if (!name.starts_with("python3") || (!is_any && name != python)) continue;
      sites->push_back(lib + "/" + name + "/site-packages");
      sites->push_back(lib + "/" + name + "/dist-packages");
    }
  }
}

// In import order.
std::vector<std::string> Sites(const Environment& environment, const std::string& interpreter,
                               const std::string& python) {
  std::vector<std::string> sites = SplitPath(environment("PYTHONPATH"));
  const std::string prefix = Above(Above(interpreter));
  AddSites(prefix, python, &sites);
  const Result<std::string> venv = ReadFile(prefix + "/pyvenv.cfg");
  const bool is_alone =
      venv && venv->find("include-system-site-packages = true") == std::string::npos;
  if (is_alone) return sites;
  if (const std::string home = environment("HOME"); !home.empty()) {
    AddSites(home + "/.local", python, &sites);
  }
  AddSites(Above(Above(Canonical(interpreter))), python, &sites);
  return sites;
}

// "torch-2.11.0+cu128.dist-info"
void AddPackages(const std::string& site, Key* key) {
  const Result<std::vector<std::string>> names = NamesAt(-1, site + "/.");
  if (!names) return;
  for (const std::string& name : *names) {
    const size_t dash = name.find('-');
    const bool is_info = name.ends_with(".dist-info") || name.ends_with(".egg-info");
    if (!is_info || dash == std::string::npos) continue;
    const std::string package = NormalName(name.substr(0, dash));
    if (std::find(kPackages.begin(), kPackages.end(), package) == kPackages.end()) continue;
    key->emplace(package, name.substr(dash + 1, name.rfind('.') - dash - 1));
  }
}

// cuda: Optional[str] = '12.8'
std::string CudaOfTorch(const std::string& site) {
  const Result<std::string> text = ReadFile(site + "/torch/version.py");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find('\'');
    const size_t end = line.rfind('\'');
    if (line.starts_with("cuda") && begin < end) return line.substr(begin + 1, end - begin - 1);
  }
  return "";
}

std::string CudaOfEnvironment(const Environment& environment) {
  if (std::string version = environment("CUDA_VERSION"); !version.empty()) return version;
  const std::string home = environment("CUDA_HOME");
  const Result<std::string> text =
      ReadFile((home.empty() ? "/usr/local/cuda" : home) + "/version.json");
  const Result<Json> json =
      text ? ParseJsonObject(*text, "version.json") : Result<Json>(text.error());
  if (!json) return "";
  const Json& cuda = JsonMember(*json, "cuda");
  const Result<std::string> version =
      JsonString(cuda.is_object() ? cuda : Json::object(), "version", "");
  return version ? *version : "";
}

}  // namespace

std::string InterpreterOf(const Environment& environment, const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size() && i < kMaxWords; ++i) {
    std::string program = FindProgram(environment, command[i]);
    if (program.empty()) continue;
    if (IsInterpreter(NameIn(program))) return program;
    if (std::string found = InterpreterOfScript(environment, program); !found.empty()) return found;
  }
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty()) {
    if (std::string found = FindProgram(environment, venv + "/bin/python"); !found.empty())
      return found;
  }
  return FindProgram(environment, "python3");
}

Probe PackageProbe(const Environment& environment, const std::vector<std::string>& command) {
  return [environment, command](Key* key) {
    const std::string interpreter = BehindShim(environment, InterpreterOf(environment, command));
    std::string cuda;
    if (!interpreter.empty()) {
      const std::string python = NameIn(Canonical(interpreter));
      (*key)["python"] = python;
      for (const std::string& site : Sites(environment, interpreter, python)) {
        AddPackages(site, key);
        if (cuda.empty()) cuda = CudaOfTorch(site);
      }
    }
    if (cuda.empty()) cuda = CudaOfEnvironment(environment);
    if (!cuda.empty()) (*key)["cuda"] = cuda;
  };
}

}  // namespace ppc::artifact
