// Functions by which a simulation uses the server's files directly, without the network. The simulation makes
// directories by them before a run, and checks files by them at the end.
#pragma once

#include <cassert>
#include <optional>
#include <utility>

#include "base/task.h"
#include "fs/file_system.h"

namespace penstock::simulation {

inline fs::RequestContext AsRoot() { return {.credentials = {.uid = 0, .gid = 0, .groups = {}}}; }

// Runs a task that never waits, and returns its result. The operations of fs::memory are such tasks.
template <class T>
T AtOnce(Task<T> task) {
  std::optional<T> result;
  Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> { to.emplace(co_await std::move(inner)); }(std::move(task),
                                                                                                     result));
  assert(result);
  return std::move(*result);
}

}  // namespace penstock::simulation
