// One COMPOUND while it is executed: what its operations share (RFC 8881 §16.2.3).
#pragma once

#include <optional>
#include <string>

#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/v4/engine/file_uses.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/random.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4_types.h"
#include "rpc/client_key.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v4 {

class Callbacks;
class Namespace;
class OwnerNames;
class RecoveryQueue;
class ReplyWriter;

// What outlives every call. Shared by all loops.
struct Services {
  const Namespace& names;
  const Settings& settings;
  OwnerNames& owners;
  State& state;
  Callbacks& callbacks;
  RecoveryQueue& recovery;
  const TimerService& clock;  // Now() may be asked on any thread
  // Where persistent sessions' replies go; without it no session is persistent.
  ReplyWriter* replies = nullptr;
  // Numbers that nobody can guess; any thread.
  uint64_t (*random)() = SystemRandom;
};

// A filehandle, the export that it leads into, and the caller as that export sees it.
class Object {
 public:
  Object(const Export& in, const fs::Handle& object, const rpc::CallContext& call)
      : export_(&in), object_(object), caller_(in.options(), call.credential, call.peer) {}

  const Export& in() const { return *export_; }
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::RequestContext& context() const { return caller_.context(); }
  const fs::Handle& object() const { return object_; }
  FileHandle handle() const { return {export_->id(), object_}; }
  NamedFile name() const { return export_->Name(object_); }
  bool read_only() const { return export_->options().read_only; }

 private:
  const Export* export_;
  fs::Handle object_;
  nfs::Caller caller_;  // not the one that calls clients back
};

// The slot that a COMPOUND of a session occupies.
struct SlotUse {
  ClientId client;
  SessionId session;
  SlotId slot;
  SequenceId sequence;
  bool persistent = false;  // of a session whose replies outlive the server
};

struct Compound {
  const Services& services;
  rpc::CallContext& call;
  const uint32_t minor_version;

  // How the flavor of the call stands to the current filehandle: see PutCurrent().
  enum class Standing : uint8_t { kTaken, kRefused, kForgiven, kForgivenMachine };
  Standing standing = Standing::kTaken;
  // The current and the saved filehandle (RFC 8881 §2.6.1 errors are answered before an operation that needs one runs).
  std::optional<Object> current{};
  std::optional<Object> saved{};
  // The stateids that go with them (RFC 8881 §16.2.3.1.2), in minor version 1 and later. Operations that give a stateid
  // set the current one.
  std::optional<nfs4::stateid4> current_stateid{};
  std::optional<nfs4::stateid4> saved_stateid{};

  // In minor version 0, and in what comes without SEQUENCE: none.
  std::optional<SlotUse> slot{};
  std::optional<RequestName> request_name() const {
    return slot ? std::optional(RequestName{slot->session, slot->slot, slot->sequence}) : std::nullopt;
  }

  // Something has been done to a file system that outlives a failure of the power; so must a persistent session's reply.
  bool lasting = false;

  // Octets that the result of the operation that is executed may have.
  size_t room = 0;
  // The reply is kept for a client that asks again (RFC 8881 §2.10.6.1.3).
  bool keeps_reply = false;
  // Where the operation after it begins, once its own arguments are decoded; null where there is none.
  const xdr::Decoder* following = nullptr;

  // What the operation that is executed changes; over with it.
  FileUses uses{};

  // The owner that the result of a LOCK or LOCKT refers to which was denied: such a result is a COMPOUND's last.
  std::string denied_owner{};

  BufferPool& buffers() const { return *call.peer.buffers; }
  TimePoint now() const { return services.clock.Now(); }

  // Makes `handle` the current filehandle, and forgets the current stateid. NFS4ERR_STALE: its export is gone, or not for
  // this client. NFS4ERR_BADHANDLE: its export never gave it. Put* is for operations that put a filehandle: NFS4ERR_WRONGSEC unless what follows makes up for it.
  nfs4::nfsstat4 PutCurrent(const FileHandle& handle);
  nfs4::nfsstat4 PutCurrent(const Export& in, const fs::Handle& object);
  // For those that find one: NFS4ERR_WRONGSEC where calls of this flavor are not taken there.
  nfs4::nfsstat4 MoveTo(const FileHandle& handle);
  nfs4::nfsstat4 MoveTo(const Export& in, const fs::Handle& object);
  // NFS4ERR_WRONGSEC where calls of this flavor are not taken.
  nfs4::nfsstat4 CheckFlavor(const Export& in, const fs::Handle& object) const;
  nfs4::nfsstat4 CheckFlavor(const Object& object) const { return CheckFlavor(object.in(), object.object()); }
  // Whether an operation may have the current filehandle: all of them may where its export takes calls of this flavor, and
  // otherwise those for whose sake it was put.
  bool MayUseCurrent(nfs4::nfs_opnum4 operation) const {
    return standing == Standing::kTaken || MayUseForgiven(operation);
  }
  // Whether the call comes from the client's machine, and it may do this for anybody (RFC 8881 §18.35.3, spo_must_allow).
  bool MachineMay(nfs4::nfs_opnum4 operation) const;

  // The stateid that an operation was called with: the current one where it stands for that (RFC 8881 §8.2.3).
  // NFS4ERR_BAD_STATEID where there is no current one.
  Result<nfs4::stateid4, nfs4::nfsstat4> Resolve(const nfs4::stateid4& given) const;

 private:
  void Enter(const Export& in, const fs::Handle& object, Standing how);
  Standing Forgive() const;
  bool MayUseForgiven(nfs4::nfs_opnum4 operation) const;
};

}  // namespace penstock::nfs::v4
