// The state of one COMPOUND during its execution, which its operations share: the filehandles, the stateids, the
// session, and the services of the server (RFC 8881 §16.2.3).
#pragma once

#include <optional>
#include <string>

#include "base/published.h"
#include "base/timer.h"
#include "fs/file_system.h"
#include "idmap/mapper.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/engine/file_uses.h"
#include "nfs/v4/engine/time_of_day.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/random.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4_types.h"
#include "rpc/client_key.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v4 {

class Callbacks;
class CopySources;
class Namespace;
class RecoveryQueue;
class ReplyWriter;

// The parts of the server that an operation uses. They outlive every call, and all loops share them.
struct Services {
  const Published<Namespace>& names;
  const Settings& settings;
  const idmap::Mapper& owners;
  State& state;
  Callbacks& callbacks;
  RecoveryQueue& recovery;
  const TimerService& clock;  // any thread may call Now()
  // Reads files of other servers, for COPY. If null, the server neither copies from other servers nor lets them copy.
  CopySources* copy_sources = nullptr;
  // Protects callbacks under RPCSEC_GSS. If null, the server makes none under it.
  rpc::SecurityFlavor* gss = nullptr;
  // Stores the replies of persistent sessions. If null, no session is persistent.
  ReplyWriter* replies = nullptr;
  // Draws a number that a client cannot guess, on any thread.
  uint64_t (*random)() = SystemRandom;
  // The time of day of the file systems, on any thread.
  fs::Timestamp (*time_of_day)() = SystemTime;
};

// A filehandle with its export, and the caller with the identity that the export gives it. Somebody else holds the
// export: Compound::names does.
class Object {
 public:
  // `identity` is that of the object if the caller knows it.
  Object(const Export& in, const fs::Handle& object, const rpc::CallContext& call,
         const fs::Identity* identity = nullptr)
      : Object(in, object, call, identity, in.OptionsFor(call.peer)) {}
  // The same object, used by another caller.
  Object UsedBy(const nfs::Caller& caller) const {
    Object object = *this;
    object.caller_ = caller;
    return object;
  }

  const Export& in() const { return *export_; }
  const nfs::Caller& caller() const { return caller_; }
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::RequestContext& context() const { return caller_.context(); }
  const fs::Handle& object() const { return object_; }
  FileHandle handle() const { return {export_->id(), object_}; }
  const NamedFile& name() const {
    if (!name_) name_ = export_->Name(object_);
    return *name_;
  }
  bool read_only() const { return read_only_; }

 private:
  // Without options, as for a client that a change of the exports has just excluded, the caller is nobody, and the
  // object read-only.
  Object(const Export& in, const fs::Handle& object, const rpc::CallContext& call, const fs::Identity* identity,
         const ExportOptions* options);

  const Export* export_;
  fs::Handle object_;
  nfs::Caller caller_;
  bool read_only_ = false;
  mutable std::optional<NamedFile> name_;  // empty until someone asks: many operations do without
};

// A filehandle of another server, as the source of a COPY (RFC 7862 §15.2.3).
struct ForeignHandle {
  nfs4::nfs_fh4 handle;
  nfs4::nfsstat4 status{};  // why it is no filehandle of this server: the result of any operation but COPY
};

// The session of a COMPOUND, once the opener has found it.
struct SessionUse {
  ClientId client;
  // Names the request in callbacks, in dialects whose callbacks refer to requests (RFC 8881 §2.10.6.3).
  std::optional<RequestName> name{};
  // The replies of the session outlive the server, so that a client needs no exclusive creation by verifier (RFC 8881
  // §18.16.3).
  bool replaces_exclusive4 = false;
};

struct Compound {
  const Services& services;
  rpc::CallContext& call;
  const Dialect& dialect;
  // The tree of exports for the whole COMPOUND, and the holder of the exports of its objects.
  std::shared_ptr<const Namespace> names = services.names.Get();

  // Whether the current filehandle takes calls of this security flavor, or why it is there although it does not: see
  // PutCurrent().
  enum class Standing : uint8_t { kTaken, kRefused, kForgiven, kForgivenMachine };
  Standing standing = Standing::kTaken;
  // The export of the last handle that PUTFH has put or refused; null if there is none.
  const Export* put_in = nullptr;
  // The current and the saved filehandle. The engine checks that they exist before it executes an operation that needs
  // them.
  std::optional<Object> current{};
  std::optional<Object> saved{};
  // Stand in place of the two if they are filehandles of another server.
  std::optional<ForeignHandle> foreign{};
  std::optional<ForeignHandle> saved_foreign{};
  // The stateids that belong to the two filehandles (RFC 8881 §16.2.3.1.2), in dialects with a current stateid. An
  // operation that returns a stateid sets the current one.
  std::optional<nfs4::stateid4> current_stateid{};
  std::optional<nfs4::stateid4> saved_stateid{};

  // Empty in a dialect without sessions, and in a COMPOUND without an opener.
  std::optional<SessionUse> session{};
  std::optional<RequestName> request_name() const { return session ? session->name : std::nullopt; }

  // An operation has made a change that survives a power failure. The reply of a persistent session must then survive
  // it, too.
  bool lasting = false;
  // An operation has succeeded with less than the client asked for: a short WRITE, or a READ that is short before the
  // end of the file. This breaks a chain (draft-talpey-nfsv4-rdma-sess-01 §2.7).
  bool incomplete = false;

  // The largest size, in octets, of the result of the current operation.
  size_t room = 0;
  // The session keeps the reply for a client that asks again (RFC 8881 §2.10.6.1.3).
  bool keeps_reply = false;
  // Once the current operation's arguments are decoded, the decoder is positioned at the next operation. Null during
  // the last operation.
  const xdr::Decoder* following = nullptr;

  // The files that the current operation changes. The engine ends the uses with the operation.
  FileUses uses{};

  // The owners of this COMPOUND as text.
  OwnerTexts owners{services.owners, services.settings, call};

  // A text to which the result of the current operation refers until it is encoded.
  std::string result_text{};

  BufferPool& buffers() const { return *call.peer.buffers; }
  TimePoint now() const { return services.clock.Now(); }

  // Makes `handle` the current filehandle, and forgets the current stateid. For operations that put a filehandle.
  // Errors: NFS4ERR_STALE if the export is gone or does not admit the client; NFS4ERR_BADHANDLE if the export never
  // gave this handle; NFS4ERR_WRONGSEC if the export does not take calls of this flavor or over this connection and the
  // following operations do not excuse it.
  nfs4::nfsstat4 PutCurrent(const FileHandle& handle);
  nfs4::nfsstat4 PutCurrent(const Export& in, const fs::Handle& object) { return PutCurrent(in, object, nullptr); }
  // The same for operations that find an object: NFS4ERR_WRONGSEC whenever calls of this flavor are not taken there.
  nfs4::nfsstat4 MoveTo(const FileHandle& handle);
  nfs4::nfsstat4 MoveTo(const Export& in, const fs::Handle& object) { return MoveTo(in, object, nullptr); }
  // Makes a filehandle of another server the current one, for COPY, and forgets the current stateid.
  void PutForeign(const ForeignHandle& handle);
  // Returns NFS4ERR_WRONGSEC if calls of this flavor are not taken, or if TLS does not protect the connection as the
  // export asks (RFC 9289).
  nfs4::nfsstat4 CheckFlavor(const Export& in, const fs::Handle& object) const;
  nfs4::nfsstat4 CheckFlavor(const Object& object) const { return CheckFlavor(object.in(), object.object()); }
  // The same where the client gets the error: logs the refusal.
  nfs4::nfsstat4 RequireFlavor(const Export& in, const fs::Handle& object) const;
  nfs4::nfsstat4 RequireFlavor(const Object& object) const { return RequireFlavor(object.in(), object.object()); }
  // Whether an operation may use the current filehandle. If the export does not take calls of this flavor, only
  // operations for which PutCurrent() excused the flavor may use it.
  bool MayUseCurrent(nfs4::nfs_opnum4 operation) const {
    return standing == Standing::kTaken || MayUseForgiven(operation);
  }
  // Logs the failure of an operation on the current filehandle, if it is a refusal.
  void NoteFailure(nfs4::nfs_opnum4 operation, nfs4::nfsstat4 status) const;
  // Whether the call comes from the client's machine, and the machine may do this operation for every user (RFC 8881
  // §18.35.3, spo_must_allow).
  bool MachineMay(nfs4::nfs_opnum4 operation) const;

  // Replaces the special stateid that stands for the current one (RFC 8881 §8.2.3). Returns NFS4ERR_BAD_STATEID if the
  // COMPOUND has no current stateid.
  Result<nfs4::stateid4, nfs4::nfsstat4> Resolve(const nfs4::stateid4& given) const;

 private:
  // Namespace::Find() for this call.
  const Export* Find(ExportId id);
  // `identity` is that of the object, or null.
  nfs4::nfsstat4 PutCurrent(const Export& in, const fs::Handle& object, const fs::Identity* identity);
  nfs4::nfsstat4 MoveTo(const Export& in, const fs::Handle& object, const fs::Identity* identity);
  void Enter(const Export& in, const fs::Handle& object, const fs::Identity* identity, Standing how);
  Standing Forgive(const FileHandle& handle) const;
  // Whether an operation, whose arguments come next, gives back state that the session's client has on this file.
  bool ReturnsState(nfs4::nfs_opnum4 operation, xdr::Decoder& arguments, const FileHandle& handle) const;
  bool MayUseForgiven(nfs4::nfs_opnum4 operation) const;
};

}  // namespace penstock::nfs::v4
