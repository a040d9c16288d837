// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/experts.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "policies/maio/synth/synth_files.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kMaxExperts = 1u << 16;

// Tensors that hold the experts of a layer one after the other: "blk.3.ffn_up_exps.weight",
// "model.layers.3.mlp.experts.gate_up_proj".  Sets *layer to what its tensors have in common.
bool HoldsExperts(const SynthTensor& tensor, std::string* layer) {
  if (tensor.shape.size() != 3 || tensor.shape[0] < 2 || tensor.shape[0] > kMaxExperts)
    return false;
  const std::string_view name = tensor.name;
  for (const std::string_view part : {".ffn_", ".experts."}) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    if (part == ".ffn_" && name.find("_exps") == std::string_view::npos) continue;
    *layer = name.substr(0, at);
    return true;
  }
  return false;
}

// One expert's own tensor: "model.layers.3.mlp.experts.17.up_proj.weight".
std::string ExpertOf(std::string_view name) {
  constexpr std::string_view kPart = ".experts.";
  const size_t at = name.find(kPart);
  if (at == std::string_view::npos) return "";
  const size_t number = at + kPart.size();
  const size_t end = name.find_first_not_of("0123456789", number);
  return end == number || end == std::string_view::npos ? "" : std::string(name.substr(0, end));
}

void AddPieces(const SynthTensor& tensor, uint64_t file, std::vector<Experts::Piece>* out) {
  std::string layer;
  if (HoldsExperts(tensor, &layer)) {
    const uint64_t experts = tensor.shape[0];
    const uint64_t bytes = (tensor.end - tensor.begin) / experts;
    if (bytes < kLeastExpertBytes) return;
    for (uint64_t i = 0; i < experts; i++)
      out->push_back({file, tensor.begin + i * bytes, bytes, layer + "." + std::to_string(i)});
    return;
  }
  std::string expert = ExpertOf(tensor.name);
  if (expert.empty() || tensor.end - tensor.begin < kLeastExpertBytes) return;
  out->push_back({file, tensor.begin, tensor.end - tensor.begin, std::move(expert)});
}

}  // namespace

std::vector<Experts::File> Experts::FilesOf(const Layout& layout) {
  std::vector<File> files;
  for (const LayoutFile& file : layout.files()) {
    if (file.number != 0 && HasContents(file.kind)) files.push_back({file.path, file.number});
  }
  return files;
}

std::vector<Experts::Piece> Experts::Find(ModelSource* source, std::span<const File> files) {
  std::vector<Piece> pieces;
  for (const File& file : files) {
    ModelFile read;
    std::string error;
    if (source->Stat(file.path, &read.info) != 0) continue;
    if (!ReadTable(source, kMaxHeaderBytes, &read, &error)) continue;
    for (const SynthTensor& tensor : read.tensors) AddPieces(tensor, file.number, &pieces);
  }
  std::ranges::sort(pieces, {}, [](const Piece& p) { return std::tie(p.file, p.offset); });
  return pieces;
}

Experts::Experts(const ServiceRun* run, std::vector<Piece> pieces)
    : run_(run), cookie_(run->cookie() | kExpertsTag) {
  std::unordered_map<std::string, uint32_t> numbers;
  places_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const auto place = static_cast<uint32_t>(places_.size());
    const auto [known, is_new] =
        numbers.emplace(piece.expert, static_cast<uint32_t>(by_expert_.size()));
    if (is_new) by_expert_.emplace_back();
    by_expert_[known->second].push_back(place);
    places_.push_back({piece.file, piece.offset, piece.bytes, known->second});
  }
}

// It is on its way, or the kernel had no room for it.
bool Experts::WasAsked(const Place& place, uint64_t now_ns) const {
  return place.asked_ns != 0 && asked_ < place.asked_before + kExpertAgainBytes &&
         now_ns < place.asked_ns + kExpertAgainNs;
}

void Experts::Add(Place* place, uint32_t group, uint64_t now_ns, IoList* out) {
  if (WasAsked(*place, now_ns)) return;
  place->asked_ns = asked_ns_ = now_ns;
  place->asked_before = asked_;
  asked_ += place->bytes;
  ppc_io& io = out->Add(place->file, place->offset, place->bytes);
  io.flags = PPC_IO_WAITED;
  io.group = group;
  io.service = run_->spec.number;
  io.cookie = cookie_;
}

void Experts::Prefetch(const miss_io& miss, IoList* out) {
  const uint64_t now = run_->Now();
  auto place =
      std::ranges::upper_bound(places_, std::tuple(miss.file, miss.offset), {},
                               [](const Place& p) { return std::tuple(p.file, p.offset); });
  // Half of the kernel's window lies before the page that was needed, in another piece perhaps.
  const bool goes_on = miss.offset == std::exchange(missed_to_, miss.offset + miss.size);
  const bool is_before = !goes_on && place != places_.end() && place->file == miss.file &&
                         place->offset - miss.offset <= kAroundPages / 2 * kPage &&
                         (place == places_.begin() || !WasAsked(*std::prev(place), now));
  if (!is_before && place-- == places_.begin()) return;
  const uint64_t at = is_before ? 0 : miss.offset - place->offset;
  // Near the end there is little to gain.
  if (place->file != miss.file || at >= place->bytes - place->bytes / 4) return;
  // One after the other: a prompt of many tokens, which needs all experts of a tensor before the
  // next tensor, or the kernel's read-ahead beyond the end of the one before.
  const bool is_next = place != places_.begin() && WasAsked(*std::prev(place), now);
  if (is_next && at < kExpertEdgeBytes) return;
  Add(&*place, 0, now, out);
  if (is_next) return;
  // Groups take turns: the next miss need not wait for all that will be read later.
  for (const uint32_t other : by_expert_[place->expert]) Add(&places_[other], 1, now, out);
}

void Experts::Describe(nlohmann::json* out) const {
  (*out)["experts"] = {
      {"number", by_expert_.size()}, {"pieces", places_.size()}, {"asked", asked_}};
}

}  // namespace ppc::maio
