// SPDX-License-Identifier: Apache-2.0
// libppc: extras/placement/include/ppc/place.h.  Nothing here allocates or throws.
// Threads: pure functions, any thread.
#include <ppc/place.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

namespace {

static_assert(sizeof(ppc_place_node) == PPC_PLACE_NODE_SIZE_1);

// Without a recording some reads come before their prefetch.
constexpr double kWithoutTemplate = 1.0 / 16;
// An evicted model is started again before its natural eviction in half of the cases, and is read
// then.
constexpr double kPushedOut = 0.5;

double Bytes(uint64_t bytes) { return static_cast<double>(bytes); }

// Bytes that the disk gives to others before it has given `missing` here: all start-ups get equal
// shares, up to what each still needs.
double ReadByOthers(const ppc_place_node& node, double missing) {
  const double alike = missing * node.busy_starts;
  return node.busy_bytes == 0 ? alike : std::min(alike, Bytes(node.busy_bytes));
}

void LeaveOut(uint32_t reason, ppc_place_result* score) {
  score->reasons = reason;
  score->start_s = std::numeric_limits<double>::infinity();
  score->score_s = score->start_s;
}

bool IsValid(const ppc_place_node* node) {
  return node != nullptr && node->size >= PPC_PLACE_NODE_SIZE_1 && std::isfinite(node->compile_s) &&
         node->compile_s >= 0;
}

// usual_rate: for a disk that has loaded nothing yet.
void Score(const ppc_place_node& node, double usual_rate, ppc_place_result* score) {
  *score = {};
  if ((node.flags & PPC_PLACE_GONE) != 0) return LeaveOut(PPC_PLACE_WHY_GONE, score);
  if (node.model_bytes == 0) return LeaveOut(PPC_PLACE_WHY_NO_MODEL, score);
  const uint64_t resident = std::min(node.resident_bytes, node.model_bytes);
  double missing = Bytes(node.model_bytes - resident);
  uint32_t reasons = 0;
  if (resident == node.model_bytes) reasons |= PPC_PLACE_WHY_WARM;
  if (resident == 0) reasons |= PPC_PLACE_WHY_COLD;
  double pushed_out = 0;
  if (node.free_bytes != PPC_PLACE_NO_LIMIT && missing > Bytes(node.free_bytes)) {
    reasons |= PPC_PLACE_WHY_PUSHES_OUT;
    pushed_out = missing - Bytes(node.free_bytes);
  }
  if (node.memory_bytes != 0 && node.model_bytes > node.memory_bytes) {
    reasons |= PPC_PLACE_WHY_NO_ROOM;
    missing += Bytes(node.model_bytes - node.memory_bytes);
  }
  if ((node.flags & PPC_PLACE_TEMPLATE) == 0) {
    reasons |= PPC_PLACE_WHY_NO_TEMPLATE;
    missing += missing * kWithoutTemplate;
  }
  const double others = ReadByOthers(node, missing);
  if (others > 0) reasons |= PPC_PLACE_WHY_BUSY;
  if (node.disk_rate == 0) reasons |= PPC_PLACE_WHY_DISK_UNKNOWN;
  const double rate = node.disk_rate == 0 ? usual_rate : Bytes(node.disk_rate);
  score->start_s = (missing + others) / rate;
  if ((node.flags & PPC_PLACE_ARTIFACTS) == 0 && node.compile_s > 0) {
    reasons |= PPC_PLACE_WHY_COMPILES;
    score->start_s += node.compile_s;
  }
  score->score_s = score->start_s + pushed_out / rate * kPushedOut;
  score->reasons = reasons;
}

// The first node's size is the stride: callers of a later release have larger structs.
const ppc_place_node& At(const ppc_place_node* nodes, size_t i) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(nodes);
  return *reinterpret_cast<const ppc_place_node*>(bytes + i * nodes->size);
}

bool AreValid(const ppc_place_node* nodes, size_t count) {
  if (count == 0) return true;
  if (!IsValid(nodes) || nodes->size % alignof(ppc_place_node) != 0) return false;
  for (size_t i = 1; i < count; i++) {
    const ppc_place_node& node = At(nodes, i);
    if (!IsValid(&node) || node.size != nodes->size) return false;
  }
  return true;
}

// Without a common rate, nodes that have loaded would be preferred, or avoided, for that alone.
double UsualRate(const ppc_place_node* nodes, size_t count) {
  double sum = 0;
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    if (At(nodes, i).disk_rate == 0) continue;
    sum += Bytes(At(nodes, i).disk_rate);
    known++;
  }
  return known == 0 ? Bytes(PPC_PLACE_USUAL_DISK_RATE) : sum / static_cast<double>(known);
}

uint32_t Mix(uint32_t hash, const char* text) {
  for (; text != nullptr && *text != '\0'; text++)
    hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619u;
  return hash;
}

}  // namespace

int ppc_place_score(const ppc_place_node* node, ppc_place_result* score) {
  if (!IsValid(node) || score == nullptr) return -EINVAL;
  Score(*node, Bytes(PPC_PLACE_USUAL_DISK_RATE), score);
  return 0;
}

long ppc_place_best(const ppc_place_node* nodes, size_t count, ppc_place_result* scores) {
  if (!AreValid(nodes, count)) return -EINVAL;
  const double usual_rate = UsualRate(nodes, count);
  long best = -ENOENT;
  ppc_place_result least{};
  uint32_t least_tie = 0;
  for (size_t i = 0; i < count; i++) {
    const ppc_place_node& node = At(nodes, i);
    ppc_place_result score{};
    Score(node, usual_rate, &score);
    if (scores != nullptr) scores[i] = score;
    if ((score.reasons & PPC_PLACE_WHY_OUT) != 0) continue;
    const bool is_better = best < 0 || score.score_s < least.score_s ||
                           (score.score_s == least.score_s && node.tie > least_tie);
    if (!is_better) continue;
    best = static_cast<long>(i);
    least = score;
    least_tie = node.tie;
  }
  return best;
}

uint32_t ppc_place_tie(const char* model, const char* node) {
  // FNV-1a, a separator that no name contains, and a finalizer: node names differ in their last
  // characters, which alone change mostly the low bits.
  uint32_t hash = (Mix(2166136261u, model) ^ 0xffu) * 16777619u;
  hash = Mix(hash, node);
  hash ^= hash >> 16;
  hash *= 0x85ebca6bu;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35u;
  return hash ^ hash >> 16;
}
