// Findings collects the errors that a simulation detects, and writes each one into the trace. A correct run leaves it
// empty.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "rdma/sim/world.h"

namespace penstock::simulation {

class Findings {
 public:
  explicit Findings(rdma::sim::World& world) : world_(world) {}

  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
    world_.Trace("FOUND: {}", lines_.back());
  }
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  rdma::sim::World& world_;
  std::vector<std::string> lines_;
};

}  // namespace penstock::simulation
