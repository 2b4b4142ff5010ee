// The files that an operation is changing. A use begins when no delegation conflicts with the change, and ends with the
// operation. In between, the server grants no delegation that the change would violate (RFC 8881 §10.4).
#pragma once

#include <vector>

#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// One thread at a time. An operation that changes nothing, or that has the file open for writing, needs no use.
class FileUses {
 public:
  FileUses() = default;
  FileUses(FileUses&& other) noexcept : state_(other.state_), files_(std::exchange(other.files_, {})) {}
  FileUses& operator=(FileUses&&) = delete;
  ~FileUses() { End(); }

  // Call it within state.Run(), with the tables that Run() passes.
  void Begin(State& state, StateTables& tables, const NamedFile& file) {
    state_ = &state;
    tables.files.delegations.BeginChange(file);
    files_.push_back(file);
  }
  bool empty() const { return files_.empty(); }
  // Ends all uses. Do not call it within State::Run().
  void End() {
    if (files_.empty()) return;
    state_->Run([this](StateTables& state) {
      for (const NamedFile& file : files_) state.files.delegations.EndChange(file);
    });
    files_.clear();
  }

 private:
  State* state_ = nullptr;
  std::vector<NamedFile> files_;
};

}  // namespace penstock::nfs::v4
