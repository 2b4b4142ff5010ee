// The user as whom a call is executed: the user of its credential, after the export's squashing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/host.h"
#include "base/local_port.h"
#include "fs/file_system.h"
#include "nfs/export_options.h"
#include "nfs/user_groups.h"
#include "rpc/auth.h"
#include "rpc/client_key.h"
#include "rpc/transport.h"

namespace penstock::nfs {

// Returns true if a call comes from this host's root: over loopback, from a port that only root may use. Other users of
// this host cannot use such a port, and root may do everything on this host anyway. This holds over RDMA as well: the
// connection managers of adapters and iWARP reserve these ports for root, as TCP does.
inline bool IsFromLocalRoot(const rpc::Peer& peer) {
  return peer.address.port() < kFirstUnreservedPort && Unmapped(peer.address.address()).is_loopback();
}

// The file system's context of one call. Its groups refer to its own array, or to a shared list.
class Caller {
 public:
  Caller(const ExportOptions& options, const rpc::Credential& credential, const rpc::Peer& peer) {
    context_.loop = peer.loop;
    context_.client = rpc::ClientKeyOf(peer);
    context_.address = peer.address.address();
    fs::Credentials& identity = context_.credentials;
    identity = {.uid = options.anonuid, .gid = options.anongid, .groups = {}};
    const Squash squash = options.SquashFor(nfs_protocol::FlavorOf(credential));
    if (squash == Squash::kAll || !IsSomebody(options, credential)) return;

    // Each id is squashed separately, so that another user cannot claim root's group.
    const bool is_local_root = credential.flavor == rpc::AuthFlavor::AUTH_SYS && IsFromLocalRoot(peer);
    const bool keep_root = squash == Squash::kNone || (squash == Squash::kForeignRoot && is_local_root);
    const auto group = [&](uint32_t gid) { return gid == 0 && !keep_root ? options.anongid : gid; };
    if (credential.uid != 0 || keep_root) identity.uid = credential.uid;
    identity.gid = group(credential.gid);
    if (options.groups && options.groups->AreOf(credential)) {
      looked_up_ = options.groups->Of(credential.uid);
      if (!looked_up_) return;
      if (!keep_root && std::ranges::find(*looked_up_, 0u) != looked_up_->end()) {
        auto squashed = std::make_shared<std::vector<uint32_t>>(*looked_up_);
        std::ranges::replace(*squashed, 0u, options.anongid);
        looked_up_ = std::move(squashed);
      }
      identity.groups = *looked_up_;
      return;
    }
    std::ranges::transform(credential.groups(), groups_.begin(), group);
    identity.groups = std::span(groups_).first(credential.groups().size());
  }

  Caller(const Caller& other) : groups_(other.groups_), looked_up_(other.looked_up_), context_(other.context_) {
    OwnGroups();
  }
  Caller& operator=(const Caller& other) {
    if (this == &other) return *this;
    groups_ = other.groups_;
    looked_up_ = other.looked_up_;
    context_ = other.context_;
    OwnGroups();
    return *this;
  }

  // The same user, whose call now comes from `peer`.
  Caller Over(const rpc::Peer& peer) const {
    Caller caller = *this;
    caller.context_.loop = peer.loop;
    caller.context_.client = rpc::ClientKeyOf(peer);
    caller.context_.address = peer.address.address();
    return caller;
  }

  const fs::RequestContext& context() const { return context_; }

 private:
  // Flavors that the export does not accept run as anonymous, and so does an initiator that maps to no user of this
  // host.
  static bool IsSomebody(const ExportOptions& options, const rpc::Credential& credential) {
    const bool unknown = credential.flavor == rpc::AuthFlavor::RPCSEC_GSS && credential.uid == rpc::kNobody;
    return credential.flavor != rpc::AuthFlavor::AUTH_NONE && !unknown && options.security.Admits(credential);
  }

  void OwnGroups() {
    fs::Credentials& identity = context_.credentials;
    if (!looked_up_) identity.groups = std::span(groups_).first(identity.groups.size());
  }

  decltype(rpc::Credential::group_ids) groups_;
  UserGroups::List looked_up_;  // replaces groups_ unless null
  fs::RequestContext context_;
};

}  // namespace penstock::nfs
