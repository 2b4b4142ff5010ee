// Files that an operation changes, from the moment when nobody's delegation was in its way until it is done: meanwhile none
// is granted that it would violate (RFC 8881 §10.4).
#pragma once

#include <vector>

#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// One thread at a time. Empty for all that changes nothing, or has the file open for writing.
class FileUses {
 public:
  FileUses() = default;
  FileUses(FileUses&& other) noexcept : state_(other.state_), files_(std::exchange(other.files_, {})) {}
  FileUses& operator=(FileUses&&) = delete;
  ~FileUses() { End(); }

  // Within state.Run(), with the tables that it passes.
  void Begin(State& state, StateTables& tables, const NamedFile& file) {
    state_ = &state;
    tables.files.delegations.BeginChange(file);
    files_.push_back(file);
  }
  bool empty() const { return files_.empty(); }
  // Ends all uses. Not within State::Run().
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
