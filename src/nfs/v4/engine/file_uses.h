// The files that an operation changes. From the moment when no delegation conflicts with the change until the operation
// is done, no delegation of these files is granted (RFC 8881 §10.4).
#pragma once

#include <vector>

#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Used by one thread at a time. Empty for an operation that changes no file, or that has the file open for writing.
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
