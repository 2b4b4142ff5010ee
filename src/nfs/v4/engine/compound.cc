#include "nfs/v4/engine/compound.h"

#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_0.h"
#include "rpc/call_order.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// Whether the OPEN names its file by a component name (RFC 8881 §2.6.3.1.1.3).
bool IsByName(xdr::Decoder& open) {
  OPEN4args arguments{};
  if (!xdr::Decode(open, arguments)) return false;
  switch (arguments.claim.claim()) {
    case CLAIM_NULL:
    case CLAIM_DELEGATE_CUR:
    case CLAIM_DELEGATE_PREV:
      return true;
    default:
      return false;
  }
}

const ExportOptions& NoOptions() {
  static const ExportOptions options = [] {
    ExportOptions none;
    none.read_only = true;
    none.squash = Squash::kAll;
    return none;
  }();
  return options;
}

}  // namespace

Object::Object(const Export& in, const fs::Handle& object, const rpc::CallContext& call, const fs::Identity* identity,
               const ExportOptions* options)
    : export_(&in),
      object_(object),
      caller_(options ? *options : NoOptions(), call.credential, call.peer),
      read_only_((options ? *options : NoOptions()).IsReadOnlyFor(nfs_protocol::FlavorOf(call.credential))) {
  if (identity) name_ = {{in.id(), object}, *identity};
}

// RFC 8881 §2.6.3.1.1: an operation that puts a filehandle does not return NFS4ERR_WRONGSEC if the next operation
// replaces that filehandle, asks for the flavors, or checks the flavor of the object that it finds, or if no operation
// follows. RESTOREFH checks the filehandle that SAVEFH saved.
//
// The operation does not return the error either if the client's machine returns or tests state of its users: the
// machine may not be able to use the flavor that the export requires. Linux (6.1) sends a GETATTR before such
// operations. As its machine, with integrity, it also asks the root for the lease time alone, which is a property of
// the server. If that fails, an idle Linux client does not renew its lease.
Compound::Standing Compound::Forgive(const FileHandle& handle) const {
  const auto for_machine = [&](nfs_opnum4 operation) {
    return MachineMay(operation) ? Standing::kForgivenMachine : Standing::kRefused;
  };
  if (!following) return Standing::kForgiven;
  const xdr::Message rest = xdr::Message::Whole(Slice::Borrowed(following->rest()));
  xdr::Decoder decoder(rest);
  for (;;) {
    uint32_t word;
    if (!decoder.U32(word)) return Standing::kForgiven;
    const auto next = static_cast<nfs_opnum4>(word);
    switch (next) {
      case OP_PUTFH:
      case OP_PUTPUBFH:
      case OP_PUTROOTFH:
      case OP_RESTOREFH:
      case OP_SECINFO:
      case OP_SECINFO_NO_NAME:
      case OP_LOOKUP:
      case OP_LOOKUPP:
        return Standing::kForgiven;
      case OP_OPEN:
        return IsByName(decoder) ? Standing::kForgiven : Standing::kRefused;
      case OP_SAVEFH:
        continue;
      case OP_GETATTR: {
        GETATTR4args arguments{};
        if (!xdr::Decode(decoder, arguments)) return Standing::kRefused;
        uint32_t after;
        if (decoder.U32(after)) {
          const auto returns = static_cast<nfs_opnum4>(after);
          return ReturnsState(returns, decoder, handle) ? for_machine(returns) : Standing::kRefused;
        }
        const bool of_server = AttributeSet(arguments.attr_request) == AttributeSet{FATTR4_LEASE_TIME};
        return of_server ? Standing::kForgivenMachine : Standing::kRefused;
      }
      default:
        return for_machine(next);
    }
  }
}

bool Compound::ReturnsState(nfs_opnum4 operation, xdr::Decoder& arguments, const FileHandle& handle) const {
  if (!session) return false;
  const auto has = [&](const stateid4& id) {
    const Presenter who{dialect, session->client};
    return services.state.Run([&](StateTables& state) { return state.files.Has(who, id, handle); });
  };
  switch (operation) {
    case OP_CLOSE: {
      CLOSE4args close{};
      return xdr::Decode(arguments, close) && has(close.open_stateid);
    }
    case OP_LOCKU: {
      LOCKU4args unlock{};
      return xdr::Decode(arguments, unlock) && has(unlock.lock_stateid);
    }
    case OP_OPEN_DOWNGRADE: {
      OPEN_DOWNGRADE4args downgrade{};
      return xdr::Decode(arguments, downgrade) && has(downgrade.open_stateid);
    }
    case OP_DELEGRETURN: {
      DELEGRETURN4args give_back{};
      return xdr::Decode(arguments, give_back) && has(give_back.deleg_stateid);
    }
    default:
      return false;
  }
}

bool Compound::MayUseForgiven(nfs_opnum4 operation) const {
  switch (operation) {
    case OP_SAVEFH:
    case OP_SECINFO:
    case OP_SECINFO_NO_NAME:
    case OP_LOOKUP:
    case OP_LOOKUPP:
    case OP_OPEN:  // an OPEN by name checks the flavor itself; other OPENs follow the operations above
      return true;
    case OP_GETATTR:
      return standing == Standing::kForgivenMachine;
    default:
      return MachineMay(operation);
  }
}

bool Compound::MachineMay(nfs_opnum4 operation) const {
  if (!session || call.credential.flavor != rpc::AuthFlavor::RPCSEC_GSS) return false;
  const Sender sender = Sender::Of(call.credential);
  return services.state.Run(
      [&](StateTables& state) { return state.clients.MachineMay(session->client, operation, sender); });
}

nfsstat4 Compound::CheckFlavor(const Export& in, const fs::Handle& object) const {
  const bool taken =
      names->FlavorsOf(in, object, call.peer).Admits(call.credential) && names->AdmitsProtection(in, object, call.peer);
  return taken ? NFS4_OK : NFS4ERR_WRONGSEC;
}

nfsstat4 Compound::RequireFlavor(const Export& in, const fs::Handle& object) const {
  const nfsstat4 status = CheckFlavor(in, object);
  if (status != NFS4_OK) names->LogRefusal(in, object, call);
  return status;
}

void Compound::Enter(const Export& in, const fs::Handle& object, const fs::Identity* identity, Standing how) {
  current.emplace(in, object, call, identity);
  foreign.reset();
  standing = how;
  current_stateid.reset();
  // Only listed calls have a subject.
  rpc::CallOrder* const order = call.peer.order;
  if (order && !order->empty()) order->NoteSubject(call.xid, NamedFileHash()(current->name()));
}

void Compound::PutForeign(const ForeignHandle& handle) {
  current.reset();
  foreign = handle;
  current_stateid.reset();
}

const Export* Compound::Find(ExportId id) {
  const Export* const in = names->Find(id, call.peer);
  put_in = in;
  if (!in && names->Has(id)) call.outcome.told = true;  // the export does not admit the client: Find() has logged that
  return in;
}

void Compound::NoteFailure(nfs_opnum4 operation, nfsstat4 status) const {
  // The flavor was refused before, where the filehandle was put.
  if (status == NFS4ERR_ACCESS && !MayUseCurrent(operation)) return;
  Refusals::Failed failed{.call = call, .operation = XdrName(operation), .status = static_cast<uint32_t>(status)};
  if (operation == OP_PUTFH) {
    failed.in = put_in;
  } else if (current) {
    failed.in = &current->in();
    failed.root_is_squashed = IsSquashedRoot(call.credential, current->context());
    failed.read_only = current->read_only();
  }
  names->refusals().HandleFailure(failed);
}

nfsstat4 Compound::PutCurrent(const FileHandle& handle) {
  // RFC 8881 §15.1.2.9: a handle is stale if its export is gone or does not admit this client any more.
  const Export* in = Find(handle.export_id);
  if (!in || !names->Shows(*in, handle.object, call.peer)) return NFS4ERR_STALE;
  const auto identity = in->file_system().Identify(handle.object);
  return identity ? PutCurrent(*in, handle.object, &*identity) : ToStatus(identity.error());
}

nfsstat4 Compound::PutCurrent(const Export& in, const fs::Handle& object, const fs::Identity* identity) {
  Standing how = CheckFlavor(in, object) == NFS4_OK ? Standing::kTaken : Forgive({in.id(), object});
  // The rights of a client's machine depend on its flavor, and not on TLS.
  if (how == Standing::kForgivenMachine && !names->AdmitsProtection(in, object, call.peer)) {
    how = Standing::kRefused;
  }
  if (how == Standing::kRefused) {
    names->LogRefusal(in, object, call);
    return NFS4ERR_WRONGSEC;
  }
  Enter(in, object, identity, how);
  return NFS4_OK;
}

nfsstat4 Compound::MoveTo(const FileHandle& handle) {
  const Export* in = Find(handle.export_id);
  if (!in) return NFS4ERR_STALE;
  const auto identity = in->file_system().Identify(handle.object);
  return identity ? MoveTo(*in, handle.object, &*identity) : ToStatus(identity.error());
}

nfsstat4 Compound::MoveTo(const Export& in, const fs::Handle& object, const fs::Identity* identity) {
  if (const nfsstat4 status = RequireFlavor(in, object); status != NFS4_OK) return status;
  Enter(in, object, identity, Standing::kTaken);
  return NFS4_OK;
}

// The special stateid for the current one has the seqid one, and all other octets are zero (RFC 8881 §8.2.3).
Result<stateid4, nfsstat4> Compound::Resolve(const stateid4& given) const {
  static constexpr stateid4 kCurrent{.seqid = 1, .other = {}};
  if (!dialect.has_current_stateid() || given != kCurrent) return given;
  if (!current_stateid) return std::unexpected(NFS4ERR_BAD_STATEID);
  return *current_stateid;
}

}  // namespace penstock::nfs::v4
