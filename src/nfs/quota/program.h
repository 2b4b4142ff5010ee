// RQUOTA versions 1 and 2 as an RPC program: quota(1) on a client shows the quotas of the file systems that it has
// mounted. Over TCP and UDP; Linux's quota(1) uses UDP. The limits cannot be changed: see SETQUOTA in the .cc file.
//
// Root of a client may ask for every id, and another user for the own id and groups, as with rpc.rquotad(8). The
// export's rules apply as well: its clients, its security flavors, and its mapping of users, since a mapped user's
// files count for the user that it is mapped to. The port of the caller does not matter: users run quota(1) themselves.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "nfs/exports.h"
#include "protocol/rquota.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::quota {

class Program final : public rpc::Program {
 public:
  // `exports` must outlive the program, and must not change. `now` returns the seconds since 1970.
  Program(const Exports& exports, std::function<int64_t()> now) : exports_(exports), now_(std::move(now)) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // All procedures are idempotent. A caller without a user id can have no quota.
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  struct Question {
    std::string_view path;
    fs::QuotaKind kind = fs::QuotaKind::kUser;
    uint32_t id = 0;
    bool active = false;  // only a quota that is enforced
  };
  Task<rpc::AcceptStatus> Get(rpc::CallContext& context, Question question, xdr::Encoder& results);
  // Returns the id on this server whose quota answers the question, or nothing if the caller may not ask.
  static std::optional<uint32_t> IdFor(const Question& question, const ExportOptions& options,
                                       const rpc::CallContext& context, const fs::Credentials& caller);

  const Exports& exports_;
  const std::function<int64_t()> now_;
};

}  // namespace penstock::nfs::quota
