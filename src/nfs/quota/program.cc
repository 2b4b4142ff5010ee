#include "nfs/quota/program.h"

#include <algorithm>
#include <string>

#include "nfs/caller.h"
#include "nfs/quota/wire_quota.h"
#include "rpc/handle.h"

namespace penstock::nfs::quota {

using namespace rquota;  // NOLINT: the protocol's own names

uint32_t Program::number() const { return RQUOTAPROG; }
rpc::VersionRange Program::versions() const { return {.low = RQUOTAVERS, .high = EXT_RQUOTAVERS}; }

rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  return {.accepts_flavor = context.credential.flavor != rpc::AuthFlavor::AUTH_NONE};
}

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const bool has_kind = context.version == EXT_RQUOTAVERS;
  const auto refuse = [](rpc::CallContext&, const auto&) { return quota_rslt(Q_EPERM); };
  switch (context.procedure) {
    case RQUOTAPROC_NULL::kNumber:
      co_return co_await rpc::Handle<RQUOTAPROC_NULL>(context, arguments, results,
                                                      [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case RQUOTAPROC_GETQUOTA::kNumber:
    case RQUOTAPROC_GETACTIVEQUOTA::kNumber: {
      ext_getquota_args asked;
      getquota_args asked_for_user;
      const bool is_decoded = has_kind ? xdr::Decode(arguments, asked) : xdr::Decode(arguments, asked_for_user);
      if (!is_decoded || !arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
      Question question;
      question.path = has_kind ? asked.gqa_pathp : asked_for_user.gqa_pathp;
      question.id = static_cast<uint32_t>(has_kind ? asked.gqa_id : asked_for_user.gqa_uid);
      question.active = context.procedure == RQUOTAPROC_GETACTIVEQUOTA::kNumber;
      if (has_kind && asked.gqa_type != static_cast<int32_t>(USRQUOTA)) {
        if (asked.gqa_type != static_cast<int32_t>(GRPQUOTA)) {
          xdr::Encode(results, quota_rslt(Q_NOQUOTA));  // a kind of a later version
          co_return rpc::AcceptStatus::SUCCESS;
        }
        question.kind = fs::QuotaKind::kGroup;
      }
      co_return co_await Get(context, question, results);
    }
    // Limits are set on the server, as with rpc.rquotad without -S.
    case RQUOTAPROC_SETQUOTA::kNumber:
    case RQUOTAPROC_SETACTIVEQUOTA::kNumber:
      if (has_kind) co_return co_await rpc::Handle<EXT_RQUOTAPROC_SETQUOTA>(context, arguments, results, refuse);
      co_return co_await rpc::Handle<RQUOTAPROC_SETQUOTA>(context, arguments, results, refuse);
    default:
      co_return rpc::AcceptStatus::PROC_UNAVAIL;
  }
}

Task<rpc::AcceptStatus> Program::Get(rpc::CallContext& context, Question question, xdr::Encoder& results) {
  const auto answer = [&results](const quota_rslt& result) {
    xdr::Encode(results, result);
    return rpc::AcceptStatus::SUCCESS;
  };
  // quota(1) leaves out the first slash of a path that it has mounted with version 4.
  std::string path(question.path);
  if (!path.starts_with('/')) path.insert(0, 1, '/');
  const auto table = exports_.Get();
  const ExportTable::Place place = table->Resolve(path);
  const auto admits = [&](const auto& each) { return each->AdmitsHost(context.peer.address.address()); };
  // A client that no export admits must not learn which paths exist.
  if (!place.found) co_return answer(quota_rslt(std::ranges::any_of(table->all(), admits) ? Q_NOQUOTA : Q_EPERM));
  const Export& found = *place.found;
  // quota(1) runs as the user, and so from any port.
  const ExportOptions* const admitted = found.OptionsFor(context.peer);
  if (!admitted || !admitted->security.Admits(context.credential) ||
      !Export::AdmitsProtection(context.peer, *admitted)) {
    co_return answer(quota_rslt(Q_EPERM));
  }

  const ExportOptions& options = *admitted;
  const Caller caller(options, context.credential, context.peer);
  const std::optional<uint32_t> id = IdFor(question, options, context, caller.context().credentials);
  if (!id) co_return answer(quota_rslt(Q_EPERM));
  const auto quota = co_await found.file_system().GetQuota(caller.context(), question.kind, *id);
  if (!quota) {
    if (quota.error() == fs::Error::kPerm) co_return answer(quota_rslt(Q_EPERM));
    co_return rpc::AcceptStatus::SYSTEM_ERR;
  }
  if (!*quota || (question.active && !(*quota)->enforced)) co_return answer(quota_rslt(Q_NOQUOTA));
  co_return answer(quota_rslt(Q_OK, WireQuota(**quota, now_())));
}

std::optional<uint32_t> Program::IdFor(const Question& question, const ExportOptions& options,
                                       const rpc::CallContext& context, const fs::Credentials& caller) {
  const rpc::Credential& credential = context.credential;
  const bool is_user = question.kind == fs::QuotaKind::kUser;
  // The caller's own id counts as what the export maps it to.
  if (question.id == (is_user ? credential.uid : credential.gid)) return is_user ? caller.uid : caller.gid;
  if (!is_user && std::ranges::find(caller.groups, question.id) != caller.groups.end()) return question.id;
  if (credential.uid != 0) return std::nullopt;
  // Root of a client administers its users, also where the export maps root to another user.
  if (options.SquashFor(nfs_protocol::FlavorOf(credential)) != Squash::kAll) return question.id;
  return is_user ? options.anonuid : options.anongid;
}

}  // namespace penstock::nfs::quota
