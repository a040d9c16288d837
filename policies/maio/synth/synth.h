// SPDX-License-Identifier: Apache-2.0
//
// Templates without recording: from the headers of a model's files follows
// what the workers of a tensor-parallel service will read, and in which order.
// Reads safetensors (with or without index) and GGUF; the result is an ordinary
// template that is marked synthetic.
//
// Threads: values; nothing here throws.  Headers are hostile until checked: bad
// ones are one line of error that names the file and the remedy.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_H_
#define POLICIES_MAIO_SYNTH_SYNTH_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// Where a model's files are: a directory of this machine, or a mount seen through the runtime.
// Paths are relative to the root of the mount.  Errors are negative errnos.
class ModelSource {
 public:
  struct Info {
    std::string path;  // below symbolic links
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uint64_t number = 0;  // the same for all names of one file; 0: not known
  };

  ModelSource() = default;
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;
  virtual ~ModelSource() = default;

  // All three from several threads at once.
  //
  // Of a regular file.
  virtual int Stat(const std::string& path, Info* out) = 0;
  // Bytes read, fewer only at the end of the file.
  virtual int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) = 0;
  // Names in a directory ("" = the root), in any order.
  virtual int List(const std::string& path, std::vector<std::string>* names) = 0;
};

// A mount, or a directory that stands for one.  Links that lead out of it are -ELOOP.
class DirectorySource : public ModelSource {
 public:
  explicit DirectorySource(std::string root);
  int Stat(const std::string& path, Info* out) override;
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override;
  int List(const std::string& path, std::vector<std::string>* names) override;

 private:
  int Resolve(const std::string& path, std::string* real) const;

  std::string root_;  // real path
};

// How a loader goes through a model.
enum class LoaderKind {
  kMmap,        // each worker maps each file and takes its slices in file order
  kRead,        // the same with read(): rows of narrow slices are read as a whole
  kMmapLayers,  // layer by layer, across files
  kReadLayers,
  kWhole,  // each worker reads all files from start to end
  kRanks,  // files are dealt out to the workers, each read from start to end
};

// Which files are the weights, where a directory holds several kinds.
enum class WeightFormat {
  kUsual,
  kTorch,         // *.bin, *.pt
  kConsolidated,  // Mistral's consolidated*.safetensors
  kRanks,         // model-rank-N-part-M: each worker's own
};
std::optional<LoaderKind> ParseLoaderKind(const std::string& name);
const char* LoaderKindNames();  // "mmap, read, ..."

struct SynthOptions {
  std::string service_id;
  uint32_t tp = 1;  // workers that share each tensor
  // Stages, each of which has tp workers and holds consecutive layers.
  uint32_t pp = 1;
  uint32_t ep = 0;  // workers that share the experts, each with whole ones; 0: they share each
  // Of several nodes only some workers' lists are wanted; count 0: all.
  uint32_t first = 0;
  uint32_t count = 0;
  WeightFormat format = WeightFormat::kUsual;
  std::optional<LoaderKind> loader;  // default: kMmap for safetensors, kWhole for GGUF
  uint64_t max_header_bytes = 100'000'000;
  uint64_t created_ns = 0;
  // Name of the file that the service is given, "" = the directory.  Others beside it that are not
  // of its set (NAME-00001-of-00003.gguf) or in its index are other models.
  std::string only;
  // Gets the paths of files that an index lists and that are not there, which are left out;
  // nullptr: they are an error.
  std::set<std::string>* missing = nullptr;

  // Workers are numbered replica by replica, in each stage by stage.
  uint32_t workers() const { return pp * std::max(tp, ep); }
  uint32_t end() const { return count == 0 ? workers() : std::min(first + count, workers()); }
};

// The model in directory dir.
std::optional<Template> Synthesize(ModelSource* source, const std::string& dir,
                                   const SynthOptions& options, std::string* error);

// One file alone, when it has changed.  nullopt also for files without a table of contents.
std::optional<Template> SynthesizeFile(ModelSource* source, const std::string& path,
                                       const SynthOptions& options, std::string* error);

struct ModelPlace {
  std::string dir;
  std::string file;  // in it, for SynthOptions::only; "": the only model in it

  bool operator==(const ModelPlace&) const = default;
};

// The model that a service's parameter means: a path of a file or directory below the mount
// (absolute or relative), a name of a directory, a repository in a Hugging Face cache tree; without
// one, the only model on the mount that an index, a set or a pipeline makes one.  nullopt: cannot
// tell.
std::optional<ModelPlace> FindModel(ModelSource* source, const std::string& mount,
                                    const std::string& model);

// What identifies a file's contents as far as templates depend on them: its size and its table of
// contents, or the first and last 64 KiB of what has none.  All zero: unreadable.
Fingerprint FileFingerprint(ModelSource* source, const std::string& path, uint64_t size,
                            FileKind* kind);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_H_
