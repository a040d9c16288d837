// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/simulation/node.h"

#include <algorithm>
#include <limits>

namespace ppc::bench {
namespace {

constexpr double kNothing = 1.0;  // bytes; rounding error

}  // namespace

size_t NodeNews::Loads() const {
  return static_cast<size_t>(
      std::count_if(to_read.begin(), to_read.end(), [](double bytes) { return bytes > 0; }));
}

Node::Node(double cache, double disk, const std::vector<double>& sizes)
    : cache_(cache), disk_(disk), sizes_(sizes), models_(sizes.size()) {}

double Node::Used() const {
  double used = 0;
  for (const Model& model : models_) used += model.resident + model.to_read;
  return used;
}

double Node::NextEnd() const {
  size_t loads = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const Model& model : models_) {
    if (model.to_read <= 0) continue;
    loads++;
    least = std::min(least, model.to_read);
  }
  return loads == 0 ? least : least * static_cast<double>(loads) / disk_;
}

void Node::Pass(double seconds) {
  size_t loads = 0;
  for (const Model& model : models_) loads += model.to_read > 0 ? 1 : 0;
  now_ += seconds;
  if (loads == 0) return;
  const double each = seconds * disk_ / static_cast<double>(loads);
  for (size_t m = 0; m < models_.size(); m++) {
    Model& model = models_[m];
    if (model.to_read <= 0) continue;
    const double got = std::min(each, model.to_read);
    model.resident += got;
    model.to_read -= got;
    read_ += got;
    if (model.to_read > kNothing) continue;
    model.resident = sizes_[m];
    model.to_read = 0;
    has_loaded_ = true;
    for (const size_t start : model.waiting) (*ends_)[start] = now_;
    model.waiting.clear();
    MakeRoom(0, m);
  }
}

void Node::AdvanceTo(double now) {
  while (now_ < now) Pass(std::min(now - now_, NextEnd()));
}

void Node::Finish() {
  for (double next = NextEnd(); next < std::numeric_limits<double>::infinity(); next = NextEnd())
    Pass(next);
}

void Node::MakeRoom(double room, size_t kept) {
  while (Used() + room > cache_) {
    Model* oldest = nullptr;
    for (size_t m = 0; m < models_.size(); m++) {
      Model& model = models_[m];
      if (m == kept || model.to_read > 0 || model.resident <= 0) continue;
      if (oldest == nullptr || model.used_at < oldest->used_at) oldest = &model;
    }
    if (oldest == nullptr) return;
    oldest->resident = 0;
  }
}

void Node::Begin(size_t m, size_t start, std::vector<double>* ends) {
  ends_ = ends;
  was_used_ = true;
  Model& model = models_[m];
  model.used_at = ++serial_;
  const double missing = sizes_[m] - model.resident;
  if (model.to_read <= 0 && missing <= 0) {
    (*ends)[start] = now_;
    return;
  }
  model.waiting.push_back(start);
  if (model.to_read > 0) return;  // joins the load under way
  MakeRoom(missing, m);
  model.to_read = missing;
}

NodeNews Node::News() const {
  NodeNews news;
  for (const Model& model : models_) {
    news.resident.push_back(model.resident);
    news.to_read.push_back(model.to_read);
  }
  news.used = std::min(Used(), cache_);
  news.has_loaded = has_loaded_;
  return news;
}

}  // namespace ppc::bench
