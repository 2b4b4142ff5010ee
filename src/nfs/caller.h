// Who a call is executed as: what its credential says, after what the export thinks of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "fs/file_system.h"
#include "nfs/export_options.h"
#include "rpc/auth.h"

namespace penstock::nfs {

// The file system's context of one call. Its groups are a view of its own array.
class Caller {
 public:
  Caller(const ExportOptions& options, const rpc::Credential& credential, Loop* loop) {
    context_.loop = loop;
    fs::Credentials& identity = context_.credentials;
    identity = {.uid = options.anonuid, .gid = options.anongid, .groups = {}};
    if (options.squash == Squash::kAll || credential.flavor == rpc::AuthFlavor::AUTH_NONE) return;

    // Each of the ids is squashed by itself: root's group does not come in with another user.
    const bool keep_root = options.squash == Squash::kNone;
    const auto group = [&](uint32_t gid) { return gid == 0 && !keep_root ? options.anongid : gid; };
    std::ranges::transform(credential.groups(), groups_.begin(), group);
    if (credential.uid != 0 || keep_root) identity.uid = credential.uid;
    identity.gid = group(credential.gid);
    identity.groups = std::span(groups_).first(credential.groups().size());
  }

  Caller(const Caller& other) : groups_(other.groups_), context_(other.context_) { OwnGroups(); }
  Caller& operator=(const Caller& other) {
    groups_ = other.groups_;
    context_ = other.context_;
    OwnGroups();
    return *this;
  }

  const fs::Context& context() const { return context_; }

 private:
  void OwnGroups() {
    fs::Credentials& identity = context_.credentials;
    identity.groups = std::span(groups_).first(identity.groups.size());
  }

  decltype(rpc::Credential::group_ids) groups_;
  fs::Context context_;
};

}  // namespace penstock::nfs
